"""Addresses between hosts, and the ports of a range that are tested."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddp_play.checks.peer_addresses import duplicate_addresses, network_between, same_machine, sampled_ports
from tests.unit.build import ethernet
from tests.unit.checks.fleets import facts


def test_the_network_that_a_job_would_choose() -> None:
    found = network_between((facts(1), facts(2)))
    assert (found.network, found.problem) == ("10.0.0.0/24", "")
    assert found.addresses == (("h1", "10.0.0.1"), ("h2", "10.0.0.2"))
    assert found.interfaces == (("h1", "eth0"), ("h2", "eth0"))


def test_one_host_has_no_network_to_others_and_hosts_apart_have_a_problem() -> None:
    assert network_between((facts(1),)).addresses == ()
    apart = network_between((facts(1), facts(2, interfaces=(ethernet("10.9.0.2/24"),))))
    assert apart.problem.startswith("the hosts have no subnet in common")
    assert apart.hint


def test_an_address_of_two_hosts_is_not_used_where_they_have_others() -> None:
    both = ("10.0.0.200/24",)
    hosts = tuple(facts(n, interfaces=(replace(ethernet(), addresses=(*both, f"10.0.0.{n}/24")),)) for n in (1, 2))
    assert duplicate_addresses(hosts) == {"10.0.0.200": ("h1", "h2")}
    assert dict(network_between(hosts).addresses) == {"h1": "10.0.0.1", "h2": "10.0.0.2"}


@pytest.mark.parametrize("link", [ethernet("172.17.0.1/16", name="docker0"), ethernet("127.0.0.1/8", name="lo")])
def test_addresses_inside_a_host_may_be_the_same(link: object) -> None:
    assert duplicate_addresses((facts(1, interfaces=(link,)), facts(2, interfaces=(link,)))) == {}


def test_names_of_one_machine() -> None:
    assert same_machine((facts(1), facts(2))) == {}
    assert same_machine((facts(1), replace(facts(2), machine="boot-1"))) == {"boot-1": ("h1", "h2")}


@pytest.mark.parametrize(
    ("first", "last", "ports"),
    [(29500, 29500, (29500,)), (1, 3, (1, 2, 3)), (0, 11, tuple(range(12)))],
)
def test_small_ranges_are_tested_whole(first: int, last: int, ports: tuple[int, ...]) -> None:
    assert sampled_ports(first, last) == ports


def test_of_large_ranges_the_ends_and_some_between() -> None:
    found = sampled_ports(29500, 29999)
    assert (found[0], found[-1], len(found)) == (29500, 29999, 12)
