"""Network matrices for tests of what is made of them, as `Matrix.to_json` writes them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks.pair_samples import PairEnd, Sample

if TYPE_CHECKING:
    from ddp_play.checks.fleet import Fleet


def matrix(
    *hosts: str, mbps: float = 1000.0, verdicts: tuple[Any, ...] = (), **changes: dict[str, Any]
) -> dict[str, Any]:
    """All directions of these hosts at one rate; `changes`: fields of a sample by `h1_h2`."""
    rows = []
    for one, other in itertools.permutations(hosts, 2):
        row = Sample(one, other, mbps, segments=9000, rtt_ms=0.1, rtt_p99_ms=0.2).to_json()
        rows.append({**row, **changes.get(f"{one}_{other}", {})})
    ends = {host: {"host": host, "address": f"10.0.0.{at}", "interface": "eth0", "link_mbps": None, "mtu": 1500,
                   "carrier_changes": 0} for at, host in enumerate(hosts, 1)}  # fmt: skip
    assert set(ends[hosts[0]]) == set(PairEnd.__dataclass_fields__)
    common = {
        "rounds": 3,
        "rounds_late": 0,
        "not_run": 0,
        "cpu_limited": 0,
        "repeated": [],
        "not_repeated": [],
        "lost": {},
    }
    return {"hosts": ends, "directions": rows, "verdicts": list(verdicts), **common}


def with_matrix(fleet: Fleet, **options: Any) -> Fleet:
    """The fleet with a matrix of its hosts."""
    return replace(fleet, matrix=matrix(*(host.name for host in fleet.hosts), **options))
