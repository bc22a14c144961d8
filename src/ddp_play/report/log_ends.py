"""Ends of the ranks' logs, and what was read from a hang, within a budget for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.file_tail import read_end
from ddp_play.report.shown_text import log_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ddp_play.report.run_attempts import Attempt

BUDGET, EVIDENCE_BUDGET = 600_000, 240_000
LEAST, MOST, MOST_FAILED = 400, 16_000, 24_000  # bytes of one log
MOST_LINES, LONGEST = 400, 500
NUM_FAILED = 8  # ranks whose logs are longer than those of the others; of an earlier attempt, the only ones


def log_ends(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Logs of the newest attempt's ranks, those that failed first; then of the ranks that failed in earlier ones."""
    found: list[dict[str, Any]] = []
    for attempt in reversed(attempts):
        failed = attempt.failed[:NUM_FAILED]
        is_newest = attempt is attempts[-1]
        others = [rank for rank in attempt.ranks if rank not in failed] if is_newest else []
        share = max(LEAST, min(MOST, BUDGET // max(1, len(attempt.ranks))))
        for rank in (*failed, *others):
            found.append(_log(attempt, rank, MOST_FAILED if rank in failed else share))
        if is_newest:
            found += [
                row
                for host in attempt.hosts
                if (row := _end(attempt.paths.agent_log(host), share, host=host, rank=None, attempt=attempt.number))[
                    "size"
                ]
            ]
    return found


def _log(attempt: Attempt, rank: int, budget: int) -> dict[str, Any]:
    host = next(name for name, ranks in attempt.hosts.items() if rank in ranks)
    return _end(attempt.paths.log(rank), budget, host=host, rank=rank, attempt=attempt.number)


def _end(path: Path, budget: int, **of: Any) -> dict[str, Any]:
    try:
        data, size = read_end(path, budget)
    except OSError:
        data, size = b"", 0
    lines = log_lines(data, longest=LONGEST)
    if len(data) < size and len(lines) > 1:
        del lines[0]  # the rest of a line
    return {
        **of,
        "size": size,
        "is_whole": len(data) == size and len(lines) <= MOST_LINES,
        "lines": lines[-MOST_LINES:],
    }


def hang_evidence(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Stacks and states of processes that were read before ranks were ended, and the flight recorder's analysis."""
    found = []
    for attempt in reversed(attempts):
        report = attempt.paths.flight_recorder_report
        paths: list[tuple[int | None, str, Path]] = [(None, "collectives", report)]
        for rank in attempt.ranks:
            paths += [(rank, kind, attempt.paths.evidence(rank, kind)) for kind in ("stack", "proc")]
        there = [row for row in paths if row[2].is_file()]
        share = max(LEAST, min(MOST, EVIDENCE_BUDGET // max(1, len(there))))
        for whose, kind, path in there:
            size = path.stat().st_size
            with path.open("rb") as file:
                lines = log_lines(file.read(share), longest=LONGEST)
            found.append({"attempt": attempt.number, "rank": whose, "kind": kind, "lines": lines,
                          "is_whole": size <= share})  # fmt: skip
    return found
