"""Counters of RDMA ports during the measurements. Values are made up after the kernel's documentation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.rdma_counters import CHECK, counters_of_rdma
from tests.unit.build import ib_host
from tests.unit.checks.fleets import fleet

PORT = "mlx5_0 port 1"
RDMA = ib_host("x", 1).rdma
BEFORE = {PORT: {"symbol_error": 5, "port_xmit_data": 100}, "eth0": {"rx_errors": 3}}


def with_rdma(seconds: float = 10.0, is_gone: bool = False, /, **h2: int) -> Fleet:
    """Two hosts with RDMA; `h2`: counters of its port after the measurements, if it is not gone."""
    own = {"facts.rdma": RDMA, "counters": BEFORE}
    made = fleet(h1=own, h2=own)
    ports: dict[str, dict[str, int]] = {"eth0": {"rx_errors": 999}}
    if not is_gone:
        ports[PORT] = {"symbol_error": 5, "port_xmit_data": 9000, **h2}
    after = {"h1": {**BEFORE, PORT: {**BEFORE[PORT], "port_xmit_data": 9000}}, "h2": ports}
    hosts = tuple(
        replace(host, counters={"counters": {"value": after[host.name]}}) if host.name in after else host
        for host in made.hosts
    )
    return replace(made, hosts=hosts, counted_s=seconds)


def found(checked: Fleet) -> list[Finding]:
    return list(counters_of_rdma(checked))


def test_ports_without_errors_pass_and_hosts_without_ports_are_not_judged() -> None:
    assert [(row.check, row.status, row.where) for row in found(with_rdma())] == [
        (CHECK, Status.OK, ("h1",)), (CHECK, Status.OK, ("h2",)),
    ]  # fmt: skip
    assert found(fleet()) == []


@pytest.mark.parametrize(
    ("counted", "status", "value"),
    [
        ({"link_downed": 1}, Status.FAIL, "mlx5_0 port 1: link_downed 1 more"),
        ({"rnr_nak_retry_err": 2}, Status.FAIL, "mlx5_0 port 1: rnr_nak_retry_err 2 more"),
        ({"symbol_error": 206}, Status.WARN, "mlx5_0 port 1: symbol_error 20.1 a second"),
        ({"port_xmit_discards": 2000}, Status.WARN, "mlx5_0 port 1: port_xmit_discards 200 a second"),
        ({"link_error_recovery": 1}, Status.WARN, "mlx5_0 port 1: link_error_recovery 0.1 a second"),
    ],
)
def test_a_port_that_counted_errors(counted: dict[str, int], status: Status, value: str) -> None:
    (row,) = [row for row in found(with_rdma(**counted)) if row.status is not Status.OK]
    assert (row.status, row.where, row.value) == (status, ("h2",), value)
    assert all((row.why, row.command, row.limit, row.source, row.look))


def test_errors_within_their_rate_are_well() -> None:
    assert {row.status for row in found(with_rdma(symbol_error=55, port_rcv_errors=50))} == {Status.OK}


def test_counters_that_were_not_read_again_never_pass() -> None:
    once = with_rdma()
    hosts: tuple[Any, ...] = tuple(replace(host, counters={}) for host in once.hosts)
    rows = found(replace(once, hosts=hosts, counted_s=0.0))
    assert {(row.status, row.broken) for row in rows} == {(Status.UNCHECKED, True)}


def test_a_port_that_is_gone_fails() -> None:
    (row,) = [row for row in found(with_rdma(10.0, True)) if row.status is not Status.OK]
    assert (row.status, row.where, row.value) == (Status.FAIL, ("h2",), "mlx5_0 port 1 is gone")


def test_counters_that_were_reset_meanwhile_never_pass() -> None:
    (row,) = [row for row in found(with_rdma(symbol_error=0)) if row.status is not Status.OK]
    assert (row.status, row.where, row.broken) == (Status.UNCHECKED, ("h2",), True)
    assert row.value == "counters were reset meanwhile: mlx5_0 port 1: symbol_error"
    (row,) = [row for row in found(with_rdma(symbol_error=0, link_downed=1)) if row.status is not Status.OK]
    assert row.status is Status.FAIL, "what rose from zero is certain"
