"""Ports and packets between hosts: which direction, and which host if it is in all of them."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.direction_checks import attributed
from ddp_play.checks.finding import Status
from tests.unit.checks.fleets import bad, fleet, the_one

RANGE = (29500, 29545, 29999)


def blocked(peer: str, result: str = "timeout", ports: tuple[int, ...] = RANGE) -> list[dict[str, Any]]:
    return [{"peer": peer, "port": port, "result": result} for port in ports]


def test_no_failure_is_no_finding() -> None:
    assert attributed([], ["h1", "h2", "h3"]) == []


@pytest.mark.parametrize(
    ("directions", "where"),
    [
        ([("h2", "h1")], [("h1", "h2")]),
        ([("h2", "h1"), ("h1", "h2")], [("h1", "h2")]),
        ([("h1", "h3"), ("h2", "h3")], [("h3",)]),
        ([("h3", "h1"), ("h3", "h2")], [("h3",)]),
        ([("h1", "h3"), ("h2", "h3"), ("h2", "h1")], [("h3",), ("h1", "h2")]),
    ],
)
def test_the_hosts_of_directions(directions: list[tuple[str, str]], where: list[tuple[str, ...]]) -> None:
    assert [hosts for hosts, _ in attributed(directions, ["h1", "h2", "h3"])] == where


def test_of_two_hosts_none_is_blamed_alone() -> None:
    assert attributed([("h1", "h2")], ["h1", "h2"]) == [(("h1", "h2"), [("h1", "h2")])]


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        (blocked("h1"), "timeout on 3 tested ports from 29500 to 29999"),
        (blocked("h1", "refused", (29545,)), "refused on port 29545"),
        (blocked("h1", "timeout", (29545, 41234)), "timeout on port 29545 and ephemeral ports"),
        (blocked("h1", "another machine"), "another machine on 3 tested ports"),
    ],
)
def test_ports_of_one_direction(rows: list[dict[str, Any]], value: str) -> None:
    (found,) = bad(fleet(h2={"saw:ports": rows}))
    assert (found.check, found.status, found.where) == ("ports", Status.FAIL, ("h1", "h2"))
    assert found.directions == (("h2", "h1"),)
    assert value in found.value


def test_a_host_is_named_once_also_where_its_peers_fail_differently() -> None:
    """A firewall that refuses answers only so many packets: of the rest a peer hears nothing."""
    mixed = [*blocked("h3", "refused", (29500,)), *blocked("h3", "timeout", (29545, 29999))]
    (found,) = bad(fleet(h1={"saw:ports": mixed}, h2={"saw:ports": blocked("h3", "refused")}))
    assert (found.check, found.where) == ("ports", ("h3",))
    assert found.directions == (("h1", "h3"), ("h2", "h3"))
    assert "refused on 3 tested ports" in found.value
    assert "timeout on 2 tested ports" in found.value


@pytest.mark.parametrize(
    ("kernel", "told"), [(1500, "nothing on the way told"), (1400, "a router there told 1400"), (None, "nothing")]
)
def test_packets_of_one_direction(kernel: int | None, told: str) -> None:
    row = {"mtu": 1500, "small": True, "large": False, "kernel": kernel}
    (found,) = bad(fleet(h1={"saw:path_mtu.h2": row}))
    assert (found.check, found.where, found.directions) == ("path mtu", ("h1", "h2"), (("h1", "h2"),))
    assert told in found.value


def test_datagrams_that_do_not_arrive_at_all_are_not_run() -> None:
    row = {"mtu": 1500, "small": False, "large": False, "kernel": 1500}
    (found,) = bad(fleet(h1={"saw:path_mtu.h2": row}))
    assert (found.check, found.status, found.where, found.broken) == ("path mtu", Status.UNCHECKED, ("h1",), False)
    assert "no UDP" in found.value


def test_ways_of_packets_that_leave_by_another_network_are_no_finding_of_their_own() -> None:
    wrong = {"saw:routes": {"10.0.0.1": "172.30.0.1"}, "saw:ports": blocked("h1")}
    assert [row.check for row in bad(fleet(h2=wrong, h1={"saw:ports": blocked("h2")}))] == ["routes to peers"]


def test_a_program_that_listens_on_a_port_of_jobs_is_named() -> None:
    the_one(
        {"listeners": {"29501": "process 7 (python) of kim"}}, "job ports in use", Status.WARN, "29501 by process 7"
    )
    running = {"listeners": {"29501": "process 7 (python) of kim"}, "facts.runs": ({"run": "a", "guard_alive": True},)}
    assert bad(fleet(h3=running)) == []
