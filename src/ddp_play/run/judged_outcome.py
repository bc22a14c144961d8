"""Outcome of an attempt between its verdict and its record in run.json.

A supervisor that takes over then knows it, although hosts may have been cleaned already and report nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.bundle.disk_space import unless_full
from ddp_play.bundle.outcome import Outcome
from ddp_play.bundle.paths import read_json, write_json

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths


def store(paths: RunPaths, attempt: int, outcome: Outcome) -> None:
    """Store the verdict before files are collected and hosts are cleaned."""
    with unless_full():
        write_json(paths.outcome, {"attempt": attempt, **outcome.to_json()})


def stored(paths: RunPaths, attempt: int) -> Outcome | None:
    """The stored outcome of this attempt; None if no supervisor has judged it."""
    found = read_json(paths.outcome)
    return Outcome.from_json(found) if found.get("attempt") == attempt else None


def remove(paths: RunPaths) -> None:
    """Remove it: run.json has the outcome."""
    paths.outcome.unlink(missing_ok=True)
