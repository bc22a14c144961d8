"""A row of samples from two readings of a host's counters. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .sample_thinning import COVERED, HOST_END, Row, rounded

LEAST_S = 0.2  # a shorter interval tells nothing: counters of CPU time have steps of 10 ms

Pair = Tuple[int, int]


def row_between(before: Dict[str, Any], after: Dict[str, Any]) -> Optional[Row]:
    """The row of the time between two readings; None if that was too short.

    Rates are per second; what one of the readings lacks is left out, as is a counter that went back.
    """
    seconds = after["up"] - before["up"]
    if seconds < LEAST_S:
        return None
    row: Row = {HOST_END: round(after["up"], 3), COVERED: round(seconds, 3)}
    if (cpu := _rate(before.get("cpu"), after.get("cpu"), seconds)) is not None:
        row["cpu"] = rounded(cpu)
    if "memory" in after:
        row["memory"] = after["memory"]
    row["nics"] = _pairs(before.get("nics"), after.get("nics"), seconds)
    row["rdma"] = _pairs(before.get("rdma"), after.get("rdma"), seconds)
    row["disk"] = _pair(before.get("disk"), after.get("disk"), seconds)
    row["ranks"] = _ranks(before["ranks"], after["ranks"], seconds)
    row["gpus"] = after.get("gpus")
    return {name: value for name, value in row.items() if value not in (None, {})}


def _rate(before: Optional[float], after: Optional[float], seconds: float) -> Optional[float]:
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _pair(before: Optional[Pair], after: Optional[Pair], seconds: float) -> Optional[List[int]]:
    if before is None or after is None:
        return None
    rates = [_rate(before[at], after[at], seconds) for at in (0, 1)]
    return None if None in rates else [round(rate or 0) for rate in rates]


def _pairs(before: Optional[Dict[str, Pair]], after: Optional[Dict[str, Pair]], seconds: float) -> Dict[str, List[int]]:
    rates = {name: _pair((before or {}).get(name), pair, seconds) for name, pair in (after or {}).items()}
    return {name: pair for name, pair in rates.items() if pair is not None}


def _ranks(
    before: Dict[str, Tuple[float, int]], after: Dict[str, Tuple[float, int]], seconds: float
) -> Dict[str, Dict[str, float]]:
    found: Dict[str, Dict[str, float]] = {}
    for rank, (used_s, memory) in after.items():
        found[rank] = {"memory": memory}
        cpu = _rate(before[rank][0], used_s, seconds) if rank in before else None
        if cpu is not None:
            found[rank]["cpu"] = rounded(cpu)
    return found
