"""Figures of one row of samples: how busy a host and its ranks are. Pure.

What a host could not read is None, not 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.metric_series import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Load:
    """CPU in cores, memory in bytes, GPU utilization in percent (mean), network in bytes per second.

    `received` and `sent` are those of the given interface and all RDMA ports, or else of all interfaces but loopback.
    """

    cpu: float | None = None
    cores: float | None = None
    memory: float | None = None
    memory_total: float | None = None
    gpu: float | None = None
    received: float | None = None
    sent: float | None = None


def host_load(header: Mapping[str, Any], row: Mapping[str, Any], *, interface: str = "") -> Load:
    """Load of a host."""
    received, sent = _traffic(row, interface)
    return Load(
        cpu=_number(row.get("cpu")),
        cores=_number(header.get("cores")),
        memory=_number(row.get("memory")),
        memory_total=_number(header.get("memory_total")),
        gpu=gpu_utilization(row),
        received=received,
        sent=sent,
    )


def rank_load(row: Mapping[str, Any], rank: int, gpus: Iterable[str]) -> Load:
    """Load of one rank: CPU and memory of its processes, utilization of its GPUs."""
    found = _rows(row.get("ranks")).get(str(rank))
    mine = found if isinstance(found, dict) else {}
    gpu = gpu_utilization(row, gpus)
    return Load(cpu=_number(mine.get("cpu")), memory=_number(mine.get("memory")), gpu=gpu)


def gpu_utilization(row: Mapping[str, Any], gpus: Iterable[str] | None = None) -> float | None:
    """Mean utilization of these GPUs in percent; None: of all."""
    known = _rows(row.get("gpus"))
    chosen = known if gpus is None else gpus
    found = [_number(_rows(known.get(gpu)).get("utilization")) for gpu in chosen]
    return mean(found)


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def total(values: Iterable[float | None]) -> float | None:
    """Sum of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _traffic(row: Mapping[str, Any], interface: str) -> tuple[float | None, float | None]:
    nics = _rows(row.get("nics"))
    chosen = [nics[interface]] if interface in nics else [pair for name, pair in nics.items() if name != "lo"]
    pairs = [pair for pair in [*chosen, *_rows(row.get("rdma")).values()] if isinstance(pair, list) and len(pair) == 2]
    return total(_number(pair[0]) for pair in pairs), total(_number(pair[1]) for pair in pairs)


def _rows(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None
