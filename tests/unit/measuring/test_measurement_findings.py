"""Findings: collectives compared with torch's table, bandwidth with plain TCP and the link."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.measuring.measurement_findings import (
    CollectiveResult,
    bandwidth_result,
    bandwidth_verdict_lines,
    collective_table,
    rate,
    size_text,
    time_text,
)
from ddp_play.planning.plan_document import Plan
from tests.unit.build import LOOPBACK, ethernet, host, plan

MIB = 1 << 20


def two_hosts(speed: int | None = 2500) -> Plan:
    """Two hosts on one ethernet of this speed (Mb/s)."""
    links = [(LOOPBACK, ethernet(f"10.0.0.{n}/24", speed=speed)) for n in (1, 2)]
    return plan(*(host(f"h{n}", interfaces=links[n - 1]) for n in (1, 2)))


def result(*sizes_and_busbw: tuple[int, float], wires: tuple[float, ...] = (0.3, 0.31), op: str = "all_reduce") -> Any:
    """Rank 0's result as the trainer writes it."""
    rows = [{"bytes": size, "busbw_gb_s": busbw} for size, busbw in sizes_and_busbw]
    return {"sweeps": [{"op": op, "rows": rows}], "wires": [{"gb_s": wire} for wire in wires]}


@pytest.mark.parametrize(
    ("rows", "judged"),
    [
        (((8, 1.0), (64 * MIB, 0.29), (1024 * MIB, 0.28)), 64 * MIB),
        (((16 * MIB, 0.29),), 16 * MIB),
        (((16 * MIB, 0.29), (32 * MIB, 0.29), (128 * MIB, 0.2)), 32 * MIB),
    ],
)
def test_the_judged_size(rows: tuple[tuple[int, float], ...], judged: int) -> None:
    found = bandwidth_result(result(*rows), two_hosts())
    assert found is not None
    assert found.num_bytes == judged
    assert (found.wire_gb_s, found.link_gb_s) == (0.3, 2.5 / 8)
    assert found.of_wire == pytest.approx(0.29 / 0.3)


@pytest.mark.parametrize("found", [{}, result((8, 1.0), (MIB, 3.0)), result((64 * MIB, 0.2), op="broadcast")])
def test_small_messages_and_other_collectives_are_not_judged(found: Any) -> None:
    assert bandwidth_result(found, two_hosts()) is None
    assert bandwidth_verdict_lines(None, two_hosts(), backend="gloo") == [
        "no verdict: all_reduce was not measured between 16 and 64 MiB"
    ]


@pytest.mark.parametrize(
    ("busbw", "words"),
    [
        (0.299, "as much as TCP gives"),
        (0.26, "slightly less than TCP gives"),
        (0.1, "something other than the link is the limit"),
        (0.5, "no valid comparison"),
    ],
)
def test_the_share_of_plain_tcp(busbw: float, words: str) -> None:
    made = two_hosts()
    lines = bandwidth_verdict_lines(bandwidth_result(result((64 * MIB, busbw)), made), made, backend="gloo")
    assert lines[0] == f"all_reduce of 64 MiB: bus bandwidth {rate(busbw)}"
    assert lines[1].startswith(
        f"plain TCP carried 0.300 GB/s (2.40 Gb/s) in the same run; gloo reached {busbw / 0.3:.3f}"
    )
    assert words in lines[1]
    assert lines[2] == "eth0 is a link of 0.312 GB/s (2.50 Gb/s); plain TCP used 0.96 of it"


def test_unknown_bandwidths_are_reported() -> None:
    unknown = two_hosts(None)
    lines = bandwidth_verdict_lines(
        bandwidth_result(result((64 * MIB, 0.2), wires=()), unknown), unknown, backend="gloo"
    )
    assert lines[1:] == [
        "plain TCP between the hosts was not measured, so there is no comparison with it",
        "the speed of eth0 is unknown: its driver does not report it, so it is not compared",
    ]
    one = plan(host(slots=2))
    (_, line) = bandwidth_verdict_lines(bandwidth_result(result((64 * MIB, 0.2), wires=()), one), one, backend="gloo")
    assert line == "all ranks are on one machine: no link was measured"


def test_bandwidth_above_the_link_is_explained() -> None:
    """A virtual interface's own word, and NCCL over InfiniBand beside TCP."""
    slow = two_hosts(1000)
    lines = bandwidth_verdict_lines(bandwidth_result(result((64 * MIB, 0.29)), slow), slow, backend="gloo")
    assert "plain TCP carried 2.40 times that: the value is no limit" in lines[2]
    lines = bandwidth_verdict_lines(bandwidth_result(result((64 * MIB, 20.0)), slow), slow, backend="nccl")
    assert lines[1].endswith("nccl reached 66.667 of that: NCCL used more than TCP")


def test_a_stream_that_does_not_fill_the_link() -> None:
    fast = two_hosts(10_000)
    lines = bandwidth_verdict_lines(bandwidth_result(result((64 * MIB, 0.29)), fast), fast, backend="gloo")
    assert lines[2].endswith("plain TCP used 0.24 of it: the hosts' CPUs, not the link, limited the one TCP stream")


def test_one_slow_host_is_the_link() -> None:
    made = two_hosts()
    slower = dataclasses.replace(made, hosts=(made.hosts[0], dataclasses.replace(made.hosts[1], speed_mbps=1000)))
    found = bandwidth_result(result((64 * MIB, 0.1)), slower)
    assert found is not None
    assert found.link_gb_s == 0.125


def row(name: str, status: str, *, documented: bool | None = True, detail: str = "") -> dict[str, Any]:
    """One line of a result of `trainer collectives`."""
    return {"name": name, "status": status, "documented": documented, "detail": detail}


def test_the_table_of_collectives() -> None:
    gloo = {"collectives": [row("send/recv", "works"), row("barrier", "hung", detail="no answer within 25 s")]}
    mpi = {"collectives": [row("send/recv", "works"), row("reduce_scatter", "works", documented=False)]}
    table = collective_table({"gloo cpu": gloo, "mpi cpu": mpi})
    assert list(table) == ["send/recv", "barrier", "reduce_scatter"]
    assert table["barrier"] == {"gloo cpu": CollectiveResult("hung", True, "no answer within 25 s")}
    assert table["barrier"]["gloo cpu"].bad
    assert table["barrier"]["gloo cpu"].differs
    assert table["reduce_scatter"]["mpi cpu"].differs
    assert not table["reduce_scatter"]["mpi cpu"].bad
    assert not CollectiveResult("not run", True, "needs 2 ranks").differs
    assert not CollectiveResult("works", None, "").differs


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(8, "8 B"), (1536, "1.5 KiB"), (MIB, "1 MiB"), (100_000_000, "95.37 MiB"), (2**30, "1 GiB")]
)
def test_sizes(num_bytes: int, text: str) -> None:
    assert size_text(num_bytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(1.23e-5, "12.3 us"), (0.0123, "12.30 ms"), (2.0, "2.00 s")])
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
