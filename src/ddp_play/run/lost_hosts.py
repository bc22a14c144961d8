"""Lost hosts: hosts that do not answer, have no guard any more, or whose ranks do not end after a stop."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from ddp_play.errors import DdpPlayError, NotTakenOver
from ddp_play.guard.protocol import HOST_SHUTS_DOWN

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.stop_decision import GangView

POLL_S = 0.5
# After the grace period the guards kill ranks that still live. They must report the end within this time.
STOP_SLACK_S = 15.0
END_S = 60.0


def open_for_take_over(
    gang: Gang, journal: Journal, *, deadline_s: float, ends_the_run: bool, ranks_ended: bool
) -> None:
    """Open a channel to every host of an attempt whose supervisor died.

    Raises NotTakenOver if a host does not answer, unless the run is to end and others know it. Such a host is tried
    again until it was silent for ddp_job_host_timeout; if all ranks have ended (`ranks_ended`) it is lost at once.
    """
    try:
        gang.open_all(deadline_s=deadline_s, failure=NotTakenOver, fail_fast=False)
    except NotTakenOver as error:
        if not any(link.state for link in gang.links):
            raise
        if not ends_the_run:
            hint = f"to end the run on the other hosts: ddp-play stop {gang.run_id}"
            raise NotTakenOver(error.message, hint=f"{error.hint}; {hint}", hosts=error.hosts) from error
        for link in map(gang.link, error.hosts):
            link.lost = "it does not answer" if ranks_ended else ""
            journal.emit("host", host=link.name, state="lost" if link.lost else "silent", why=link.lost)


def end_ranks(gang: Gang, plan: Plan) -> list[str]:
    """End ranks of hosts that are back after the verdict: the absence was short, or there is no lease or no guard.

    Returns the hosts whose ranks did not end, or that did not answer.
    """
    grace_s = plan.timeouts["grace"]
    living = [link for link in gang.links if _may_live(link)]
    gang.tell("stop", links=living, reason="the run is over", signal=plan.signal, grace_s=grace_s, now=False)
    until = time.monotonic() + grace_s + STOP_SLACK_S
    while any(map(_may_live, gang.links)) and time.monotonic() < until:
        gang.pump(POLL_S)
        gang.keep_alive()
    with contextlib.suppress(DdpPlayError):  # hosts without a reply are returned
        gang.ask("end", "ended", deadline_s=END_S)
    return [link.name for link in gang.links if _may_live(link) or link.replies.get("ended", {"left": True})["left"]]


def _may_live(link: Link) -> bool:
    """Does the host's guard live, and has it not reported the end of all ranks?"""
    return not link.lost and bool(link.state) and not link.guard_gone and link.state.get("phase") != "ended"


def give_up_on_lost_hosts(gang: Gang, journal: Journal, *, host_timeout_s: float) -> None:
    """Mark hosts that have ranks and were silent for longer than `host_timeout_s` or have no guard any more."""
    gang.notice_stalls()
    for link in gang.links:
        if not has_ranks(link):
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
        if link.connected and link.place is not None:
            link.ranks_lost = "its ranks did not end after the stop signal"
        else:
            link.lost = f"silent for {link.silent_s():.0f} s"
        journal.emit("host", host=name, state="lost", why=link.lost or link.ranks_lost)


def gone(gang: Gang) -> dict[str, str]:
    """Hosts that cannot take part in another attempt -> why."""
    return {link.name: link.lost or HOST_SHUTS_DOWN for link in gang.links if link.lost or link.shuts_down}


def has_ranks(link: Link) -> bool:
    """Does it count as a host whose ranks run? Not if they have ended, or if it was given up."""
    return not (link.lost or link.ranks_lost or _all_ended(link))


def _all_ended(link: Link) -> bool:
    rows = (link.state.get("ranks") or {}).values()
    return bool(rows) and all(row.get("state") == "exited" for row in rows)
