"""Hosts with several NICs for one job: chosen by prefix or by list, with the same number on every host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.planning.fabric import choose_fabric
from tests.unit.build import LOOPBACK, ethernet, host, infiniband

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts


def nics(name: str, number: int, *names: str, interface: str) -> HostFacts:
    """A host with InfiniBand NICs of these names, each in a network of its own."""
    links = [infiniband(f"10.{20 + at}.0.{number}/24", name=card) for at, card in enumerate(names)]
    return host(name, interfaces=(LOOPBACK, ethernet(f"192.168.1.{number}/24"), *links), interface=interface)


@pytest.mark.parametrize(
    ("interface", "chosen"),
    [
        ("ib", ("ib0", "ib1")),
        ("ib0,ib1", ("ib0", "ib1")),
        ("ib1, ib0", ("ib0", "ib1")),
        ("ib1", ()),
        ("eth0", ()),
    ],
)
def test_all_nics_by_prefix_or_by_list(interface: str, chosen: tuple[str, ...]) -> None:
    facts = tuple(nics(f"h{n}", n, "ib0", "ib1", interface=interface) for n in (1, 2))
    for point in choose_fabric(facts).endpoints.values():
        assert point.interfaces == chosen
        assert point.interface == (chosen[0] if chosen else interface)


def test_a_name_that_is_also_a_prefix_is_the_name() -> None:
    facts = tuple(nics(f"h{n}", n, "ib", "ib1", interface="ib") for n in (1, 2))
    assert {point.interface for point in choose_fabric(facts).endpoints.values()} == {"ib"}
    assert {point.interfaces for point in choose_fabric(facts).endpoints.values()} == {()}


def test_unequal_numbers_of_nics_are_refused_with_a_table() -> None:
    facts = (nics("h1", 1, "ib0", "ib1", interface="ib"), nics("h2", 2, "ib0", interface="ib"))
    with pytest.raises(HostNotReady) as caught:
        choose_fabric(facts)
    assert caught.value.message.splitlines() == [
        "the hosts do not have the same number of NICs (ddp_interface):",
        "  h1: ib0, ib1",
        "  h2: ib0",
    ]


def test_one_name_of_a_list_that_does_not_exist_is_named() -> None:
    facts = tuple(nics(f"h{n}", n, "ib0", interface="ib0,ib7") for n in (1, 2))
    with pytest.raises(HostNotReady, match=r"h1: interface ib0,ib7 \(ddp_interface\) does not exist"):
        choose_fabric(facts)
