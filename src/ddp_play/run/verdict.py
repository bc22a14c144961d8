"""Verdict on an attempt: the first failing rank, apart from ranks that failed because of a peer. Pure."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import HOST_LOST, Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.guard.rank_failure import final_error, has_own_error, is_collateral
from ddp_play.run.failure_hints import hint
from ddp_play.run.stack_dumps import DUMP, summary, suspect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.run.stack_dumps import Whereabouts
    from ddp_play.run.stop_decision import Stop
    from ddp_play.run.stop_requests import StopRequest

TAIL_LINES, TAIL_WIDTH = 20, 400
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Signals that no peer causes: a rank that ended by one of these failed by itself. A stop uses the first one too.
OWN_SIGNALS = (9, 11, 7, 4)
CRASH_SIGNALS = OWN_SIGNALS[1:]
# Times of two hosts are compared: their clocks are known this well.
CLOCKS_S = 1.0
# Exit codes of runs that no rank ended; 124 as timeout(1) has it.
EXIT_HOST_LOST, EXIT_STOPPED, EXIT_TIME, EXIT_WRONG_FABRIC = 69, 130, 124, 1


def judge(
    outcomes: tuple[RankOutcome, ...],
    tails: Mapping[int, str],
    stop: Stop | None,
    found: Mapping[int, Whereabouts] | None = None,
) -> Outcome:
    """The outcome of an attempt.

    `tails`: rank -> last output. `stop`: why ddp-play ended the gang. `found`: rank -> what it was doing when it hung.
    """
    if stop is not None and stop.kind == "stopped":
        return Outcome(RunStatus.STOPPED, Verdict("stopped", stop.reason, EXIT_STOPPED), outcomes)
    if stop is not None and stop.kind in ("max_duration", "lease") and _any_failed_before(outcomes, tails):
        stop = None
    if stop is not None and stop.kind in ("idle", "max_duration", "lease", "wrong_fabric"):
        return _ended_by_us(stop, outcomes, tails, found or {})
    failed = [row for row in outcomes if row.failed]
    lost = [row for row in outcomes if row.state == "lost"]
    if lost and all(is_collateral_failure(row, tails) for row in failed):
        return _lost(lost, outcomes)
    if failed:
        return _failed(first_cause(failed, outcomes, tails), outcomes, tails)
    if all(row.ok for row in outcomes):
        return Outcome(RunStatus.SUCCEEDED, Verdict("done", _all_done(len(outcomes)), 0), outcomes)
    stopped = next(row for row in outcomes if not row.ok)
    verdict = Verdict(
        "stopped",
        f"rank {stopped.rank} on {stopped.host} was ended: {stopped.words()}",
        EXIT_STOPPED,
        rank=stopped.rank,
        host=stopped.host,
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def _any_failed_before(outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> bool:
    """Did a rank fail by itself before a limit ended the others, which waited for it without a controller?"""
    first_stop = min((row.ended for row in outcomes if row.stopped and row.ended), default=0.0)
    return any(
        row.failed and row.ended and row.ended < first_stop - CLOCKS_S and not is_collateral_failure(row, tails)
        for row in outcomes
    )


def first_cause(failed: list[RankOutcome], outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> RankOutcome:
    """The rank that failed first. Its exit may be reported after those of its peers, and even after the stop."""
    guilty = [row for row in failed if not is_collateral_failure(row, tails)]
    if not guilty:
        # A rank that we stopped has to show an error of its own: silence tells nothing about it.
        guilty = [row for row in outcomes if row.stopped and not row.ok and failed_before_stop(row, tails)]
    return min(guilty or failed, key=lambda row: (row.ended or 0.0, row.rank))


def failed_before_stop(row: RankOutcome, tails: Mapping[int, str]) -> bool:
    """Did a rank that we stopped fail by itself before our signal reached it?"""
    return row.oom or row.signal in CRASH_SIGNALS or has_own_error(tails.get(row.rank, ""))


def is_collateral_failure(row: RankOutcome, tails: Mapping[int, str]) -> bool:
    """Did it fail because of a peer? Not if it was killed, or has no message of torch, gloo or NCCL about a peer."""
    if row.oom or (row.signal in OWN_SIGNALS and not row.stopped):
        return False
    return is_collateral(tails.get(row.rank, ""))


def own_error(tail: str) -> str:
    """Last line of the last Python traceback, such as `ValueError: loss is nan`; empty without one."""
    error = final_error(tail)
    return printable(error.first_line) if error else ""


def told_by_nccl(tail: str) -> str:
    """What NCCL itself says of its error, in a line of its own below the one that torch begins with; else empty."""
    error = final_error(tail)
    lines = error.text if error else []
    told = [line for before, line in itertools.pairwise(lines) if before.strip() == "Last error:" and line.strip()]
    return printable(told[-1].strip()) if told else ""


def printable(line: str) -> str:
    """A line of a rank for display: no control characters, at most TAIL_WIDTH characters."""
    line = CONTROL.sub("\N{REPLACEMENT CHARACTER}", line)
    return line if len(line) <= TAIL_WIDTH else f"{line[:TAIL_WIDTH]} ... ({len(line)} characters)"


def last_lines(tail: str) -> tuple[str, ...]:
    """Last output: the last TAIL_LINES lines of a log, for display."""
    return tuple(printable(line) for line in tail.splitlines()[-TAIL_LINES:])


def _failed(first: RankOutcome, outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> Outcome:
    tail = tails.get(first.rank, "")
    same = _with_the_same_error(first, outcomes, tails)
    others = tuple(row.rank for row in outcomes if row.rank not in (first.rank, *same) and not row.ok)
    how = first.words()
    if first.stopped:
        how = "it had an error of its own and had not ended when it was stopped"
    message = f"rank {first.rank} on {first.host} failed first: {how}"
    if first.detail and first.detail not in message:
        message += f" ({first.detail})"
    if same:
        message += f"; {_count(same)} failed with the same error"
    if others and is_collateral_failure(first, tails):
        message += f", it lost a peer; {_count(others)} ended too, and no rank shows an error of its own"
    elif others:
        message += f"; {_count(others)} ended because of it"
    code = 1 if first.stopped else first.exit_code
    verdict = Verdict(
        kind="rank_failed",
        message=message,
        exit_code=code or 1,
        rank=first.rank,
        host=first.host,
        tail=last_lines(tail),
        last_frame=last_frame(tail),
        error=": ".join(filter(None, (own_error(tail), told_by_nccl(tail)))),
        kernel=first.kernel,
        collateral=others,
        hint=hint(first, tail, (row for row in outcomes if row.stopped and not row.ok)),
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def _with_the_same_error(
    first: RankOutcome, outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]
) -> tuple[int, ...]:
    """Other ranks whose own error is that of the first one: a missing module, for example."""
    error = own_error(tails.get(first.rank, ""))
    if not error or is_collateral_failure(first, tails):
        return ()
    return tuple(
        row.rank
        for row in outcomes
        if row.rank != first.rank and not row.ok and own_error(tails.get(row.rank, "")) == error
    )


def _lost(lost: list[RankOutcome], outcomes: tuple[RankOutcome, ...]) -> Outcome:
    first = lost[0]
    numbers = [str(row.rank) for row in lost if row.host == first.host]
    ranks = f"rank{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
    others = tuple(row.rank for row in outcomes if row.host != first.host and not row.ok)
    verdict = Verdict(
        kind=HOST_LOST,
        message=f"host {first.host} was lost with {ranks}: {first.detail or 'it does not answer'}",
        exit_code=EXIT_HOST_LOST,
        rank=first.rank,
        host=first.host,
        collateral=others,
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def stopped_while_collecting(outcome: Outcome, request: StopRequest | None) -> Outcome:
    """The outcome: `stopped` after `stop --now` while files were collected, although the ranks succeeded."""
    if request is None or not request.now or outcome.status is not RunStatus.SUCCEEDED:
        return outcome
    message = f"{outcome.verdict.message}; collecting was stopped: {request.reason}"
    return Outcome(RunStatus.STOPPED, Verdict("stopped", message, EXIT_STOPPED), outcome.ranks)


def _ended_by_us(
    stop: Stop, outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str], found: Mapping[int, Whereabouts]
) -> Outcome:
    if stop.kind == "wrong_fabric":
        hint = "repair InfiniBand, or allow TCP sockets with ddp_job_fabric: ethernet"
        return Outcome(RunStatus.FAILED, Verdict(stop.kind, stop.reason, EXIT_WRONG_FABRIC, hint=hint), outcomes)
    culprit = suspect(found)
    shown = culprit if culprit is not None else (outcomes[0].rank if outcomes else 0)
    host = next((row.host for row in outcomes if row.rank == culprit), None)
    words = summary(found)
    verdict = Verdict(
        stop.kind,
        stop.reason + (f": {words}" if words else ""),
        EXIT_TIME,
        rank=culprit,
        host=host,
        tail=last_lines(tails.get(shown, "").partition(DUMP)[0]),
        hint="evidence/ in the bundle shows what each rank was doing" if found else "",
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def last_frame(tail: str) -> str:
    """Innermost frame of the last traceback, such as `train.py:88 in step`; empty without a traceback."""
    error = final_error(tail)
    if error is None or not error.frames:
        return ""
    match = error.frames[-1]
    return f"{match['file']}:{match['line']} in {match['name']}"


def _count(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 6:
        return "ranks " + ", ".join(str(rank) for rank in ranks)
    return f"{len(ranks)} other ranks"


def _all_done(num_ranks: int) -> str:
    return "the only rank exited 0" if num_ranks == 1 else f"all {num_ranks} ranks exited 0"
