"""Samples of the hosts as panels of curves: CPU, memory, networks, disks and GPUs; CPU and memory of each rank."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.samples import SampleFile, read_samples
from ddp_play.report.curves import Member, Series, panel
from ddp_play.report.line_sampling import sampled_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ddp_play.report.run_attempts import RunStory

BUDGET = 40_000_000  # bytes of all hosts' samples that are read whole; of more, rows are chosen evenly
Row = dict[str, Any]


def _gpus(field: str, joined: Callable[[list[float]], float]) -> Callable[[Row, str], float]:
    return lambda row, _nic: joined([gpu[field] for gpu in row["gpus"].values() if field in gpu])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _rdma(direction: int) -> Callable[[Row, str], float]:
    return lambda row, _nic: sum(rates[direction] for rates in row["rdma"].values())


# Title, unit, and the value in a row of a host whose planned interface has this name.
PANELS: tuple[tuple[str, str, Callable[[Row, str], Any]], ...] = (
    ("GPU utilization, mean of a host", "%", _gpus("utilization", _mean)),
    ("GPU memory of a host", "bytes", _gpus("memory", sum)),
    ("GPU power of a host", "W", _gpus("power", sum)),
    ("GPU temperature, warmest of a host", "°C", _gpus("temperature", max)),
    ("GPU clock, slowest of a host", "MHz", _gpus("sm_clock", min)),
    ("CPU of a host", "cores", lambda row, _nic: row["cpu"]),
    ("Memory of a host", "bytes", lambda row, _nic: row["memory"]),
    ("Received on the planned network", "bytes/s", lambda row, nic: row["nics"][nic][0]),
    ("Sent on the planned network", "bytes/s", lambda row, nic: row["nics"][nic][1]),
    ("Received by RDMA", "bytes/s", _rdma(0)),
    ("Sent by RDMA", "bytes/s", _rdma(1)),
    ("Read from disks", "bytes/s", lambda row, _nic: row["disk"][0]),
    ("Written to disks", "bytes/s", lambda row, _nic: row["disk"][1]),
)
RANK_PANELS = (("CPU of a rank", "cores", "cpu"), ("Memory of a rank", "bytes", "memory"))


def usage(story: RunStory, interfaces: Mapping[str, str], *, first: Iterable[int] = ()) -> dict[str, Any]:
    """Panels of the samples, and the hosts without any. `interfaces`: the planned one of each host; `first`: ranks."""
    hosts = list(dict.fromkeys(host for attempt in story.attempts for host in attempt.hosts))
    read = {host: _read(story, host, BUDGET // max(1, len(hosts))) for host in hosts}
    chosen = list(first)
    of_hosts: dict[str, dict[Member, Series]] = defaultdict(dict)
    of_ranks: dict[str, dict[Member, Series]] = defaultdict(dict)
    for host, file in read.items():
        for row in file.rows:
            _add_host(of_hosts, row, host, interfaces.get(host, ""), story.created)
            _add_ranks(of_ranks, row, story.created)
    panels = [panel(title, unit, of_hosts[title], story.length) for title, unit, _ in PANELS if of_hosts[title]]
    panels += [
        panel(title, unit, _in_order(of_ranks[title]), story.length, first=[f"rank {rank}" for rank in chosen])
        for title, unit, _ in RANK_PANELS
        if of_ranks[title]
    ]
    return {"panels": panels, "hosts": _headers(read), "without": [host for host in hosts if not read[host].rows]}


def _read(story: RunStory, host: str, budget: int) -> SampleFile:
    path = story.run.paths.samples(host)
    lines = None
    with suppress(OSError):
        if path.stat().st_size > budget:
            lines = sampled_lines(path, budget)
    if lines is None:
        return read_samples(path)
    documents = lines.documents()
    rows = [row for row in documents if {"t", "s", "attempt"} <= row.keys()]
    return SampleFile(next((row for row in documents if "format" in row), {}), rows)


def _headers(read: Mapping[str, SampleFile]) -> list[dict[str, Any]]:
    names = ("cores", "memory_total", "gpus")
    return [
        {"host": host, **{name: file.header[name] for name in names if name in file.header}}
        for host, file in read.items()
        if file.header
    ]


def _add_host(found: dict[str, dict[Member, Series]], row: Row, host: str, nic: str, created: float) -> None:
    for title, _, value in PANELS:
        with suppress(LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            _add(found[title], (host, row["attempt"]), row, value(row, nic), created)


def _add_ranks(found: dict[str, dict[Member, Series]], row: Row, created: float) -> None:
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        for rank, values in row["ranks"].items():
            for title, _, name in RANK_PANELS:
                if name in values:
                    _add(found[title], (f"rank {int(rank)}", row["attempt"]), row, values[name], created)


def _add(found: dict[Member, Series], member: Member, row: Row, value: Any, created: float) -> None:
    """Add a value in the middle of the row's time. What is no number is left out."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        series = found.get(member)
        if series is None:
            series = found[member] = Series()
        series.add(max(0.0, row["t"] - row["s"] / 2 - created), float(value), max(float(row["s"]), 1e-9))


def _in_order(series: Mapping[Member, Series]) -> dict[Member, Series]:
    """Ranks by number."""
    keys: Sequence[Member] = sorted(series, key=lambda member: (int(member[0].removeprefix("rank ")), member[1]))
    return {key: series[key] for key in keys}
