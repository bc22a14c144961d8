"""Samples of the hosts as panels of curves: CPU, memory, networks, disks and GPUs; CPU and memory of each rank."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.host_load import gpu_utilization
from ddp_play.bundle.samples import samples_of
from ddp_play.report.curves import Member, MemberSeries, panel
from ddp_play.report.line_sampling import sampled_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ddp_play.bundle.samples import SampleFile
    from ddp_play.report.run_attempts import RunStory

BUDGET = 10_000_000  # bytes of all hosts' samples that are read whole; of more, rows are chosen evenly
TINY = 1e-9
Row = dict[str, Any]
Panels = dict[str, dict[Member, MemberSeries]]


# Panels of hosts by the name of their value: title and unit.
PANELS = {
    "utilization": ("GPU utilization, mean of a host", "%"),
    "gpu_memory": ("GPU memory of a host", "bytes"),
    "power": ("GPU power of a host", "W"),
    "temperature": ("GPU temperature, warmest of a host", "°C"),
    "sm_clock": ("GPU clock, slowest of a host", "MHz"),
    "cpu": ("CPU of a host", "cores"),
    "memory": ("Memory of a host", "bytes"),
    "received": ("Received on the planned network", "bytes/s"),
    "sent": ("Sent on the planned network", "bytes/s"),
    "rdma_received": ("Received by RDMA", "bytes/s"),
    "rdma_sent": ("Sent by RDMA", "bytes/s"),
    "disk_read": ("Read from disks", "bytes/s"),
    "disk_written": ("Written to disks", "bytes/s"),
}
RANK_PANELS = (("CPU of a rank", "cores", "cpu"), ("Memory of a rank", "bytes", "memory"))


def sample_panels(story: RunStory, interfaces: Mapping[str, str], *, first: Iterable[int] = ()) -> dict[str, Any]:
    """Panels of the samples, and the hosts without any. `interfaces`: the planned one of each host; `first`: ranks.

    `is_whole` is false if of many rows some were read at even intervals.
    """
    hosts = list(dict.fromkeys(host for attempt in story.attempts for host in attempt.hosts))
    budget = BUDGET // max(1, len(hosts))
    lines = {host: sampled_lines(story.run.paths.samples(host), budget) for host in hosts}
    read = {host: samples_of(sampled.lines) for host, sampled in lines.items()}
    of_hosts: Panels = defaultdict(dict)
    of_ranks: Panels = defaultdict(dict)
    for host, file in read.items():
        for row in file.rows:
            time, weight = _middle(row, story.created), row["s"] or TINY
            for name, value in panel_values(row, interfaces.get(host, "")).items():
                _series(of_hosts[name], (host, row["attempt"])).add(time, value, weight)
            _add_ranks(of_ranks, row, time, weight)
    chosen = [f"rank {rank}" for rank in first]
    panels = [panel(*PANELS[name], of_hosts[name], story.length) for name in PANELS if of_hosts[name]]
    panels += [
        panel(title, unit, _in_order(of_ranks[name]), story.length, first=chosen)
        for title, unit, name in RANK_PANELS
        if of_ranks[name]
    ]
    return {
        "panels": panels, "hosts": _headers(read), "without": [host for host in hosts if not read[host].rows],
        "is_whole": all(sampled.is_whole for sampled in lines.values()),
    }  # fmt: skip


def _headers(read: Mapping[str, SampleFile]) -> list[dict[str, Any]]:
    kinds: dict[str, type | tuple[type, ...]] = {"cores": (int, float), "memory_total": (int, float), "gpus": dict}
    return [
        {
            "host": host,
            **{name: file.header[name] for name, kind in kinds.items() if isinstance(file.header.get(name), kind)},
        }
        for host, file in read.items()
        if file.header
    ]


def panel_values(row: Row, nic: str) -> dict[str, float]:
    """Values of PANELS in a row, by name; those that the host could not read are not there."""
    found: dict[str, float] = {}
    for reader in (_cpu_and_memory, partial(_rates, nic=nic), _rdma, _disk, _gpus):
        try:
            values = reader(row)
        except (LookupError, TypeError, ValueError, AttributeError):
            continue
        found |= values
    return found


def _cpu_and_memory(row: Row) -> dict[str, float]:
    return {name: float(row[name]) for name in ("cpu", "memory") if name in row}


def _rates(row: Row, nic: str) -> dict[str, float]:
    received, sent = row["nics"][nic]
    return {"received": float(received), "sent": float(sent)}


def _rdma(row: Row) -> dict[str, float]:
    ports = list(row["rdma"].values())
    return {
        "rdma_received": float(sum(rates[0] for rates in ports)),
        "rdma_sent": float(sum(rates[1] for rates in ports)),
    }


def _disk(row: Row) -> dict[str, float]:
    read, written = row["disk"]
    return {"disk_read": float(read), "disk_written": float(written)}


def _gpus(row: Row) -> dict[str, float]:
    gpus = row["gpus"].values()
    utilization = gpu_utilization(row)
    found = {} if utilization is None else {"utilization": utilization}
    for name, field, joined in GPU_FIELDS:
        if values := [gpu[field] for gpu in gpus if field in gpu]:
            found[name] = float(joined(values))
    return found


GPU_FIELDS: tuple[tuple[str, str, Callable[[Sequence[float]], float]], ...] = (
    ("gpu_memory", "memory", sum),
    ("power", "power", sum),
    ("temperature", "temperature", max),
    ("sm_clock", "sm_clock", min),
)


def _add_ranks(found: Panels, row: Row, time: float, weight: float) -> None:
    attempt = row["attempt"]
    try:
        for rank, values in row.get("ranks", {}).items():
            member = (f"rank {int(rank)}", attempt)
            for _, _, name in RANK_PANELS:
                if name in values:
                    _series(found[name], member).add(time, float(values[name]), weight)
    except (TypeError, ValueError, AttributeError):
        return


def _middle(row: Row, created: float) -> float:
    """The middle of the row's time, in seconds since the run was created."""
    return max(0.0, float(row["t"]) - float(row["s"]) / 2 - created)


def _series(found: dict[Member, MemberSeries], member: Member) -> MemberSeries:
    series = found.get(member)
    if series is None:
        series = found[member] = MemberSeries()
    return series


def _in_order(series: Mapping[Member, MemberSeries]) -> dict[Member, MemberSeries]:
    """Ranks by number."""
    keys: Sequence[Member] = sorted(series, key=lambda member: (int(member[0].removeprefix("rank ")), member[1]))
    return {key: series[key] for key in keys}
