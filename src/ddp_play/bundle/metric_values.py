"""Numbers of a bundle for other programs: what ranks reported and what hosts sampled, by name and time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ddp_play.bundle.metric_series import as_float, is_number
from ddp_play.bundle.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths

# Fields of a row of metrics that say which row it is.
STEP, TIME = "step", "time"
MOST_STEPS = 2**63  # what event files can hold
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
            numbers = {_text(name): value for name, value in _numbers(row).items()}
            for name in (STEP, TIME, "rank"):
                numbers.pop(name, None)
            yield Values(float(row[TIME]), step if type(step) is int and abs(step) < MOST_STEPS else None, numbers)


def _text(name: str) -> str:
    """The name without halves of surrogate pairs, which no file of text can hold."""
    return name.encode("utf-8", "replace").decode("utf-8")


def host_values(paths: RunPaths, host: str) -> Iterator[Values]:
    """Samples of a host as flat names: `cpu`, `nics/eth0/received`, `ranks/0/memory`, `gpus/0/power`."""
    for row in read_samples(paths.samples(host)).rows:
        yield Values(float(row["t"]), None, dict(_flat(row)))


def _flat(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    yield from _numbers({name: row.get(name) for name in ("cpu", "memory")}).items()
    yield from _pair("disk", "disk", row.get("disk"))
    for kind in ("nics", "rdma"):
        for device, pair in _rows(row.get(kind)).items():
            yield from _pair(kind, f"{kind}/{device}", pair)
    for kind in ("ranks", "gpus"):
        for number, fields in _rows(row.get(kind)).items():
            yield from ((f"{kind}/{number}/{name}", value) for name, value in _numbers(_rows(fields)).items())


def _pair(kind: str, name: str, pair: Any) -> Iterator[tuple[str, float]]:
    if isinstance(pair, list) and len(pair) == len(PAIRS[kind]):
        yield from (
            (f"{name}/{way}", value) for way, value in _numbers(dict(zip(PAIRS[kind], pair, strict=True))).items()
        )


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row by name; NaN and infinite ones are among them, as a program that reads them shows them."""
    known = ((name, as_float(value)) for name, value in row.items())
    return {name: value for name, value in known if value is not None}


def _rows(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
