"""A run of one rank, as a controller opens and prepares it over a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.build import source_archive
from tests.unit.guard.test_daemon import LIMITS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.guard.host_program import Line

RUN: dict[str, Any] = {"run": "night", "token": "0123456789abcdef", "attempt": 1, "host": "h1"}
FROM_START: dict[str, Any] = {"logs": {"0": 0}, "metrics": {"0": 0}, "nccl": {}}


def source(root: Path) -> dict[str, Any]:
    return {"role": "unpack", "path": str(root / "src"), "digest": "d1", "wait_s": 5, "collect": True, "manifest": {}}


def spec(script: str, root: Path) -> dict[str, Any]:
    rank = {
        "rank": 0,
        "argv": ["/bin/sh", "-c", script],
        "env": {"PATH": "/usr/bin:/bin"},
        "workdir": str(root / "src"),
    }
    return {"attempt": 1, "runtime": "process", "source": source(root), "limits": LIMITS, "ranks": [rank]}


def prepared(line: Line, script: str, root: Path) -> None:
    """Open the run, send a source of one file, prepare it: the guard waits for `go`."""
    line.ask("open", **RUN)
    line.order("source", source_archive(("word", "hello", "")))
    line.order("source")
    answer = line.ask("prepare", spec=spec(script, root))
    assert answer["t"] == "prepared", answer
