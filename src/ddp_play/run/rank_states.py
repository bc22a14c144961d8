"""Rank states last reported by the hosts, with times of the controller's clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.guard.protocol import HOST_SHUTS_DOWN
from ddp_play.run.restart_decision import BY_SIGNAL

if TYPE_CHECKING:
    from ddp_play.bundle.writer import Bundle
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link


LOG_LINES = "lines of the log of rank"
# The SIGTERM of a shutdown may reach ranks this long before their guard knows of it.
SHUTDOWN_S = 5.0


def outcomes(plan: Plan, gang: Gang, bundle: Bundle) -> tuple[RankOutcome, ...]:
    """All ranks of the plan in order, as their hosts last reported them."""
    rows = []
    for host in plan.hosts:
        link = gang.link(host.name)
        known = link.state.get("ranks") or {}
        for rank in host.ranks:
            rows.append(_outcome(link, rank, known.get(str(rank)) or {}, bundle.log_size(rank)))
    return tuple(rows)


def damaged_ranks(link: Link) -> dict[int, str]:
    """Rank -> why lines of its log may be missing, as the host said after all that it has."""
    rows = link.replies.get("drained", {}).get("logs") or ()
    return {row["rank"]: row["why"] for row in rows if row["rank"] in link.ranks}


def damaged_logs(gang: Gang) -> list[dict[str, Any]]:
    """Rows about logs of which lines may be missing. The hosts have no more of them, so nothing is kept there."""
    return [
        {"host": link.name, "path": f"{LOG_LINES} {rank}", "why": why}
        for link in gang.links
        for rank, why in sorted(damaged_ranks(link).items())
    ]


def is_about_log(row: dict[str, Any]) -> bool:
    """Is this row of `missing` in run.json one of `damaged_logs`?"""
    return str(row["path"]).startswith(LOG_LINES)


def _outcome(link: Link, rank: int, row: dict[str, Any], log_bytes: int) -> RankOutcome:
    state = row.get("state", "created")
    if (link.lost or link.ranks_lost) and state != "exited":
        why = HOST_SHUTS_DOWN if link.shuts_down else link.lost or link.ranks_lost
        return RankOutcome(rank, link.name, "lost", detail=why, started=row.get("started"))
    found = RankOutcome(
        rank=rank,
        host=link.name,
        state=state,
        exit_code=row.get("exit_code"),
        signal=row.get("signal"),
        oom=bool(row.get("oom")),
        stopped=bool(row.get("stopped")),
        started=_controller_time(row.get("started"), link),
        ended=_controller_time(row.get("ended"), link),
        detail=row.get("detail", ""),
        log_bytes=log_bytes,
        log_complete=state == "exited" and not link.lost and rank not in damaged_ranks(link),
        kernel=tuple(row.get("kernel") or ()),
        kernel_problem=str(link.state.get("kernel_problem") or ""),
    )
    if state == "exited" and link.shuts_down and _by_shutdown(row, link.state.get("stopping_at") or 0.0):
        return replace(found, state="lost", detail=HOST_SHUTS_DOWN)
    return found


def _by_shutdown(row: dict[str, Any], stopping_at: float) -> bool:
    """Did this rank end because its host shuts down? Some handle the signal and exit with 0."""
    code, told = row.get("exit_code"), stopping_at - SHUTDOWN_S
    return row.get("stopped") or code in BY_SIGNAL or (not code and (row.get("ended") or told) >= told)


def _controller_time(host_time: float | None, link: Link) -> float | None:
    return None if host_time is None else round(host_time - link.clock_offset_s, 3)
