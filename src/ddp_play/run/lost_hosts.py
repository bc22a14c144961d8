"""Lost hosts: hosts that do not answer, have no guard any more, or whose ranks do not end after a stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.stop_decision import GangView


def give_up_on_lost_hosts(gang: Gang, journal: Journal, *, host_timeout_s: float) -> None:
    """Mark hosts that have ranks and were silent for longer than `host_timeout_s` or have no guard any more."""
    gang.notice_stalls()
    for link in gang.links:
        if link.lost or link.ranks_lost or _all_ended(link):
            continue
        if link.silent_s() > host_timeout_s:
            link.lost = f"silent for {link.silent_s():.0f} s"
        elif link.guard_gone:
            link.ranks_lost = "its guard is gone: the host was rebooted, or the guard was killed"
        if why := link.lost or link.ranks_lost:
            journal.emit("host", host=link.name, state="lost", why=why)


def declare_stuck(gang: Gang, journal: Journal, view: GangView) -> None:
    """Mark hosts whose ranks did not end in time after a stop."""
    for name in {row.host for row in view.ranks if row.state not in ("exited", "lost")}:
        link = gang.link(name)
        link.ranks_lost = "its ranks did not end after the stop signal"
        journal.emit("host", host=name, state="lost", why=link.ranks_lost)


def _all_ended(link: Link) -> bool:
    rows = (link.state.get("ranks") or {}).values()
    return bool(rows) and all(row.get("state") == "exited" for row in rows)
