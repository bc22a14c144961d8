"""Routes and kernel limits of the machine."""

from __future__ import annotations

import os
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from ddp_play.lab import machine_resources
from ddp_play.lab.requirements import KernelLimit

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def test_routes_without_the_default_one() -> None:
    assert machine_resources.parse_routes(ROUTES) == (IPv4Network("172.17.0.0/16"), IPv4Network("192.0.2.0/24"))


def test_no_routes() -> None:
    assert machine_resources.parse_routes("Iface\n") == ()


def test_limits_are_raised_only_where_they_are_too_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_resources, "_PROC", tmp_path)
    (tmp_path / "sys/a").mkdir(parents=True)
    (tmp_path / "sys/a/low").write_text("10\n")
    (tmp_path / "sys/a/high").write_text("1000\n")
    limits = [KernelLimit(f"a.{name}", 100, 500) for name in ("low", "high", "unknown")]
    raised, refused = machine_resources.raise_limits(limits)
    assert [limit.name for limit in raised] == ["a.low"]
    assert refused == ()
    assert (tmp_path / "sys/a/low").read_text() == "500"
    assert (tmp_path / "sys/a/high").read_text() == "1000\n"
    assert machine_resources.raise_limits(limits) == ((), ())


def test_low_limits_that_may_be_raised_are_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_resources, "_PROC", tmp_path)
    (tmp_path / "sys/a").mkdir(parents=True)
    (tmp_path / "sys/a/low").write_text("10\n")
    assert machine_resources.unraisable([KernelLimit("a.low", 100, 500), KernelLimit("a.unknown", 1, 1)]) == ()
    monkeypatch.setattr(os, "access", lambda *_: False)
    limits = [KernelLimit("a.low", 100, 500), KernelLimit("a.low", 5, 500)]
    assert machine_resources.unraisable(limits) == (limits[0],)


def test_a_limit_that_may_not_be_raised_is_reported() -> None:
    """The kernel lets nobody write this one."""
    limit = KernelLimit("kernel.ngroups_max", 1 << 40, 1 << 40)
    before = (machine_resources._PROC / "sys/kernel/ngroups_max").read_text()
    assert machine_resources.raise_limits([limit]) == ((), (limit,))
    assert (machine_resources._PROC / "sys/kernel/ngroups_max").read_text() == before
