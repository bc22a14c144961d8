"""NICs and routes: a defect of one host is one finding about it."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Status
from tests.unit.build import ethernet, rdma
from tests.unit.checks.fleets import bad, fleet, the_one

WARN, FAIL = Status.WARN, Status.FAIL
TWO_ROUTES = [{"interface": f"eth{n}", "gateway": f"10.0.{n}.254", "metric": 0} for n in (0, 1)]

# Change of h3, then check, result, and a part of the value.
ONE_HOST: list[tuple[dict[str, Any], str, Status, str]] = [
    ({"facts.interfaces": (ethernet("10.0.0.3/24", mtu=9000),)}, "mtu", FAIL, "9000"),
    ({"facts.interfaces": (ethernet("10.0.0.3/24", speed=100),)}, "nic speed", FAIL, "100 Mb/s"),
    ({"facts.interfaces": (ethernet("10.0.0.3/24"), ethernet("10.9.0.3/24", name="eth1"))}, "nics", WARN, "2 with"),
    ({"nics.eth0/duplex": "half"}, "duplex", FAIL, "half"),
    ({"saw:routes": {"10.0.0.1": "172.30.0.1", "10.0.0.2": "10.0.0.3"}}, "routes to peers", FAIL, "to h1"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "check", "status", "value"), ONE_HOST, ids=lambda part: str(part)[:40])
def test_a_defect_is_one_finding_about_its_host(change: dict[str, Any], check: str, status: Status, value: str) -> None:
    the_one(change, check, status, value)


def test_hosts_without_a_defect_have_no_finding() -> None:
    assert bad(fleet()) == []


def test_default_routes_of_one_metric() -> None:
    found = bad(fleet(h1={"default_routes": TWO_ROUTES}))
    assert [(row.check, row.where) for row in found] == [("default route", ("h1",)), ("default routes", ("h1",))]


def test_rdma_ports_that_are_not_active() -> None:
    hosts = {f"h{n}": {"facts.rdma": (rdma(state="DOWN" if n == 3 else "ACTIVE"),)} for n in (1, 2, 3)}
    (found,) = bad(fleet(**hosts))
    assert (found.check, found.status, found.where, found.value) == ("rdma ports", FAIL, ("h3",), "none active")
