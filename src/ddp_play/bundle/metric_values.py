"""Numbers of a bundle for other programs: what ranks reported and what hosts sampled, by name and time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ddp_play.bundle.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths

# Fields of a row of metrics that say which row it is.
STEP, TIME = "step", "time"
PAIRS = {"nics": ("received", "sent"), "rdma": ("received", "sent"), "disk": ("read", "written")}


class Values(NamedTuple):
    """Numbers of one moment. `step` is None where a rank reported none."""

    time: float
    step: int | None
    numbers: dict[str, float]


def rank_values(paths: RunPaths, rank: int) -> Iterator[Values]:
    """What a rank reported in all attempts, the earlier ones first."""
    earlier = sorted(paths.attempts, key=lambda attempt: (len(attempt.root.name), attempt.root.name))
    for attempt in (*earlier, paths):
        yield from _reported(attempt.metrics(rank))


def ranks_with_metrics(paths: RunPaths) -> list[int]:
    """Ranks that reported something in any attempt."""
    return sorted({rank for attempt in (*paths.attempts, paths) for rank in attempt.reporting_ranks})


def _reported(path: Path) -> Iterator[Values]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and is_number(row.get(TIME)):
            step = row.get(STEP)
            numbers = {name: float(value) for name, value in row.items() if is_number(value)}
            for name in (STEP, TIME, "rank"):
                numbers.pop(name, None)
            yield Values(float(row[TIME]), step if type(step) is int else None, numbers)


def host_values(paths: RunPaths, host: str) -> Iterator[Values]:
    """Samples of a host as flat names: `cpu`, `nics/eth0/received`, `ranks/0/memory`, `gpus/0/power`."""
    for row in read_samples(paths.samples(host)).rows:
        yield Values(float(row["t"]), None, dict(_flat(row)))


def _flat(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if name in ("cpu", "memory") and is_number(value):
            yield name, float(value)
        elif name == "disk":
            yield from _pair(name, name, value)
        elif name in PAIRS and isinstance(value, dict):
            for device, pair in value.items():
                yield from _pair(name, f"{name}/{device}", pair)
        elif name in ("ranks", "gpus") and isinstance(value, dict):
            for number, fields in value.items():
                yield from ((f"{name}/{number}/{field}", float(fields[field])) for field in fields)


def _pair(kind: str, name: str, pair: list[float]) -> Iterator[tuple[str, float]]:
    yield from ((f"{name}/{direction}", float(value)) for direction, value in zip(PAIRS[kind], pair, strict=False))


def is_number(value: object) -> bool:
    """Is it a number, and neither true nor false?"""
    return isinstance(value, int | float) and not isinstance(value, bool)
