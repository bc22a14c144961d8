"""Why a run ended: the first failing rank apart from collateral. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddp_play.result import Outcome, RankOutcome, RunStatus, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.watch import Stop

# What peers of a dead rank print: gloo, nccl and the store, as measured on torch 2.13 and read in 2.15.
COLLATERAL = re.compile(
    r"Connection (reset|closed|refused)|Broken pipe|remote process|remote worker crashing|"
    r"connectFullMesh|DistStoreError|DistNetworkError|Socket Timeout|recv failed|unhandled system error|"
    r"Timed out waiting|watchdog caught collective operation timeout|store.*(timeout|closed)",
    re.IGNORECASE,
)
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$')
TAIL_LINES = 20
# Exit codes of ends that no rank caused; 124 is what timeout(1) uses.
EXIT_HOST_LOST, EXIT_STOPPED, EXIT_TIME, EXIT_WRONG_FABRIC = 69, 130, 124, 1


def judge(outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str], stop: Stop | None) -> Outcome:
    """The outcome of an attempt. `tails` maps ranks to the end of their logs, `stop` is why we ended it."""
    if stop is not None and stop.kind == "stopped":
        return Outcome(RunStatus.STOPPED, Verdict("stopped", stop.reason, EXIT_STOPPED), outcomes)
    if stop is not None and stop.kind in ("idle", "max_duration", "lease", "wrong_fabric"):
        return _ended_by_us(stop, outcomes, tails)
    failed = [row for row in outcomes if not row.ok and not row.stopped and row.state == "exited"]
    lost = [row for row in outcomes if row.state == "lost"]
    if lost and all(_is_collateral(row, tails.get(row.rank, "")) for row in failed):
        return _lost(lost, outcomes)
    if failed:
        return _failed(failed, outcomes, tails)
    if all(row.ok for row in outcomes):
        return Outcome(RunStatus.SUCCEEDED, Verdict("done", f"all {len(outcomes)} ranks exited 0", 0), outcomes)
    stopped = next(row for row in outcomes if not row.ok)
    verdict = Verdict(
        "stopped",
        f"rank {stopped.rank} on {stopped.host} was ended: {stopped.words()}",
        EXIT_STOPPED,
        rank=stopped.rank,
        host=stopped.host,
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def first_cause(failed: list[RankOutcome], tails: Mapping[int, str]) -> RankOutcome:
    """Cause before time: a peer's exit can reach us before that of the rank that caused it."""
    return min(failed, key=lambda row: (_is_collateral(row, tails.get(row.rank, "")), row.ended or 0.0, row.rank))


def _is_collateral(row: RankOutcome, tail: str) -> bool:
    """Did it die of a peer? Killed ranks and those without torch's words about a lost peer did not."""
    if row.oom or row.signal in (9, 11, 7, 4):
        return False
    return bool(COLLATERAL.search("\n".join(tail.splitlines()[-TAIL_LINES:])))


def _failed(failed: list[RankOutcome], outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> Outcome:
    first = first_cause(failed, tails)
    tail = tails.get(first.rank, "")
    others = tuple(row.rank for row in outcomes if row.rank != first.rank and not row.ok)
    message = f"rank {first.rank} on {first.host} failed first: {first.words()}"
    if first.detail and first.detail not in message:
        message += f" ({first.detail})"
    if others:
        message += f"; {_count(others)} ended because of it"
    verdict = Verdict(
        kind="rank_failed",
        message=message,
        exit_code=first.exit_code if first.exit_code else 1,
        rank=first.rank,
        host=first.host,
        tail=tuple(tail.splitlines()[-TAIL_LINES:]),
        last_frame=last_frame(tail),
        collateral=others,
        hint=_hint(first, tail),
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def _lost(lost: list[RankOutcome], outcomes: tuple[RankOutcome, ...]) -> Outcome:
    first = lost[0]
    ranks = ", ".join(str(row.rank) for row in lost if row.host == first.host)
    others = tuple(row.rank for row in outcomes if row.host != first.host and not row.ok)
    verdict = Verdict(
        kind="host_lost",
        message=f"host {first.host} was lost with rank(s) {ranks}: {first.detail or 'it no longer answers'}",
        exit_code=EXIT_HOST_LOST,
        rank=first.rank,
        host=first.host,
        collateral=others,
        hint="when it is back: ddp-play gc -i INVENTORY",
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def _ended_by_us(stop: Stop, outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> Outcome:
    if stop.kind == "wrong_fabric":
        hint = "mend it, or accept sockets: ddp_job_fabric: ethernet"
        return Outcome(RunStatus.FAILED, Verdict(stop.kind, stop.reason, EXIT_WRONG_FABRIC, hint=hint), outcomes)
    quiet = outcomes[0] if outcomes else None
    tail = tails.get(quiet.rank, "") if quiet else ""
    verdict = Verdict(stop.kind, stop.reason, EXIT_TIME, tail=tuple(tail.splitlines()[-TAIL_LINES:]))
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def last_frame(tail: str) -> str:
    """`train.py:88 in step` of the last traceback line, empty without one."""
    for line in reversed(tail.splitlines()):
        if match := FRAME.match(line):
            return f"{match['file']}:{match['line']} in {match['name']}"
    return ""


def _hint(row: RankOutcome, tail: str) -> str:
    if row.oom:
        return "it ran out of memory: raise ddp_job_memory or lower the batch size"
    if row.exit_code == 127:
        return "the command was not found where the rank runs: check ddp_job_command, the image, or ddp_python"
    if "No module named 'torch'" in tail:
        return "the rank's Python has no torch: set ddp_python to one that has, or use an image"
    if "Address already in use" in tail or "EADDRINUSE" in tail:
        return "another program took the rendezvous port: run again, or move ddp_job_port_range"
    return ""


def _count(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 6:
        return "ranks " + ", ".join(str(rank) for rank in ranks)
    return f"{len(ranks)} other ranks"
