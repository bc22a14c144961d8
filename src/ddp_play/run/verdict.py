"""Verdict on an attempt: the first failing rank, apart from ranks that failed because of a peer. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.guard.rank_failure import is_collateral, is_oom
from ddp_play.run.stack_dumps import DUMP, summary, suspect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.run.stack_dumps import Whereabouts
    from ddp_play.run.stop_decision import Stop

FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$')
# torch puts this before every line of a traceback once the ranks have met.
RANK_PREFIX = re.compile(r"^\[rank\d+\]:[ ]?", re.MULTILINE)
TAIL_LINES, TAIL_WIDTH = 20, 400
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
STORAGE = ("No space left on device", "Read-only file system", "Stale file handle", "Disk quota exceeded")
PORT_TAKEN = "another program took the rendezvous port: run again, or move ddp_job_port_range"
# Signals that nobody sends to a peer: whoever has one of these is a cause.
OWN_SIGNALS = (9, 11, 7, 4)
# Exit codes of ends that no rank caused; 124 is what timeout(1) uses.
EXIT_HOST_LOST, EXIT_STOPPED, EXIT_TIME, EXIT_WRONG_FABRIC = 69, 130, 124, 1


def judge(
    outcomes: tuple[RankOutcome, ...],
    tails: Mapping[int, str],
    stop: Stop | None,
    found: Mapping[int, Whereabouts] | None = None,
) -> Outcome:
    """The outcome of an attempt.

    `tails` maps ranks to the end of their logs, `stop` is why we ended it, `found` what hung ranks were doing then.
    """
    if stop is not None and stop.kind == "stopped":
        return Outcome(RunStatus.STOPPED, Verdict("stopped", stop.reason, EXIT_STOPPED), outcomes)
    if stop is not None and stop.kind in ("idle", "max_duration", "lease", "wrong_fabric"):
        return _ended_by_us(stop, outcomes, tails, found or {})
    failed = [row for row in outcomes if row.failed]
    lost = [row for row in outcomes if row.state == "lost"]
    if lost and all(blames_a_peer(row, tails) for row in failed):
        return _lost(lost, outcomes)
    if failed:
        return _failed(first_cause(failed, outcomes, tails), outcomes, tails)
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


def first_cause(failed: list[RankOutcome], outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> RankOutcome:
    """Cause before time: a peer's exit can reach us before that of the rank that caused it, even after our stop."""
    guilty = [row for row in failed if not blames_a_peer(row, tails)]
    if not guilty:
        late = [row for row in outcomes if row.stopped and not row.ok and not blames_a_peer(row, tails)]
        guilty = [row for row in late if own_error(tails.get(row.rank, ""))]
        if not guilty and len(late) == 1:
            guilty = late  # everyone else lost its connections while this one was on its way out
    return min(guilty or failed, key=lambda row: (row.ended or 0.0, row.rank))


def blames_a_peer(row: RankOutcome, tails: Mapping[int, str]) -> bool:
    """Did it die of a peer? Killed ranks and those without torch's words about a lost peer did not."""
    if row.oom or (row.signal in OWN_SIGNALS and not row.stopped):
        return False
    return is_collateral(tails.get(row.rank, ""))


def own_error(tail: str) -> str:
    """`ValueError: loss is nan`: what the last Python traceback ends with, empty without one."""
    lines = RANK_PREFIX.sub("", tail).splitlines()
    at = next((index for index in range(len(lines) - 1, -1, -1) if FRAME.match(lines[index])), None)
    if at is None:
        return ""
    return printable(next((line for line in lines[at + 1 :] if line and not line[0].isspace()), ""))


def printable(line: str) -> str:
    """A rank's line as it can be shown: no control characters, not endless."""
    line = CONTROL.sub("\N{REPLACEMENT CHARACTER}", line)
    return line if len(line) <= TAIL_WIDTH else f"{line[:TAIL_WIDTH]} ... ({len(line)} characters)"


def last_lines(tail: str) -> tuple[str, ...]:
    """What is shown of a log's end."""
    return tuple(printable(line) for line in tail.splitlines()[-TAIL_LINES:])


def _failed(first: RankOutcome, outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str]) -> Outcome:
    tail = tails.get(first.rank, "")
    others = tuple(row.rank for row in outcomes if row.rank != first.rank and not row.ok)
    how = first.words()
    if first.stopped:
        how = "it cut its peers off and had not ended when it was stopped"
    message = f"rank {first.rank} on {first.host} failed first: {how}"
    if first.detail and first.detail not in message:
        message += f" ({first.detail})"
    if others:
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
        error=own_error(tail),
        kernel=first.kernel,
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


def _ended_by_us(
    stop: Stop, outcomes: tuple[RankOutcome, ...], tails: Mapping[int, str], found: Mapping[int, Whereabouts]
) -> Outcome:
    if stop.kind == "wrong_fabric":
        hint = "mend it, or accept sockets: ddp_job_fabric: ethernet"
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
        hint="what every rank was doing: evidence/ in the bundle" if found else "",
    )
    return Outcome(RunStatus.FAILED, verdict, outcomes)


def last_frame(tail: str) -> str:
    """`train.py:88 in step` of the last traceback line, empty without one."""
    for line in reversed(RANK_PREFIX.sub("", tail).splitlines()):
        if match := FRAME.match(line):
            return f"{match['file']}:{match['line']} in {match['name']}"
    return ""


# What a log's end says -> what helps.
REMEDIES = (
    ("No module named 'torch'", "the rank's Python has no torch: set ddp_python to one that has, or use an image"),
    ("Address already in use", PORT_TAKEN),
    ("EADDRINUSE", PORT_TAKEN),
    ("apparmor_parser", "package apparmor is missing on the host: ddp-play provision --tags docker_engine"),
    *((words, f"{words}: look at the disk or the shared directory that the rank writes to") for words in STORAGE),
)


def _hint(row: RankOutcome, tail: str) -> str:
    if row.oom or is_oom(list(row.kernel)):
        return "it ran out of memory: raise ddp_job_memory or lower the batch size"
    if row.signal == 9 and not row.stopped:
        return "it was killed from outside" + (f"; {row.kernel_problem}" if row.kernel_problem else "")
    known = next((remedy for words, remedy in REMEDIES if words in tail), "")
    if row.exit_code == 127 and not known:
        return "the command was not found where the rank runs: check ddp_job_command, the image, or ddp_python"
    return known


def _count(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 6:
        return "ranks " + ", ".join(str(rank) for rank in ranks)
    return f"{len(ranks)} other ranks"
