"""What came of one row, and how it differs from what the row expects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.rows import Expected


# How much longer than written down things may take on a machine that has other work.
SLACK = float(os.environ.get("DDP_PLAY_FAULTS_SLACK", "1"))


@dataclass
class Measured:
    """What came of it. Times in seconds; None where there is nothing to measure."""

    exit_code: int
    document: dict[str, Any]
    screen: str
    detected_s: float | None
    stopped_s: float | None
    clean_s: float
    remains: dict[str, tuple[str, ...]]
    log_problems: list[str]


def differences(expected: Expected, measured: Measured, *, slack: float = SLACK) -> list[str]:
    """What is not as it was written down; `slack` stretches the times on a machine that has other work."""
    document = measured.document
    verdict = document.get("verdict") or {}
    wanted: list[tuple[str, Any, Any]] = [
        ("exit code", expected.exit_code, measured.exit_code),
        ("verdict", expected.verdict, document.get("exit_class")),
        ("rank", expected.rank, verdict.get("rank")),
        ("host", expected.host, verdict.get("host")),
        ("succeeds", not expected.ends, document.get("status") == "succeeded"),
        ("remains", dict(expected.remains), measured.remains),
        ("attempts", expected.attempts, document.get("attempt", 1)),
    ]
    if expected.missing is not None:
        wanted.append(("missing", expected.missing, bool(document.get("missing"))))
    rows = [f"{what} is {got!r}, expected {want!r}" for what, want, got in wanted if want != got]
    for what, limit, took in (
        ("the gang was stopped", expected.stopped_s, measured.stopped_s),
        ("the hosts were clean", expected.clean_s, measured.clean_s),
    ):
        if limit is not None and (took is None or took > limit * slack):
            rows.append(f"{what} after {took} s, expected {limit} s")
    rows += [f"the screen does not say {text!r}" for text in expected.says if text not in measured.screen]
    return rows + measured.log_problems
