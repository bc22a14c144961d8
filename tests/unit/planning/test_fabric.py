"""Choosing the network: hardware x overrides, and the message where there is none."""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import DdpPlayError, HostNotReady, UsageError
from ddp_play.planning.fabric import choose_fabric
from tests.unit.build import DOCKER0, LOOPBACK, ethernet, host, hosts, ib_host, infiniband

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts, Interface


def on(*links: Interface, name: str = "h1", **fields: Any) -> HostFacts:
    return host(name, interfaces=(LOOPBACK, *links), **fields)


TWO_NETWORKS = tuple(
    on(
        ethernet(f"192.168.1.{n}/24"),
        ethernet(f"10.9.0.{n}/24", name="eth1", speed=25000),
        DOCKER0,
        name=f"h{n}",
    )
    for n in (1, 2)
)
UNKNOWN_SPEED = tuple(
    on(ethernet(f"192.168.1.{n}/24", speed=None), ethernet(f"10.9.0.{n}/24", name="eth1", speed=None), name=f"h{n}")
    for n in (1, 2)
)
IB = (ib_host("g1", 1), ib_host("g2", 2))
ONE_WITH_IB = (ib_host("g1", 1), on(ethernet("192.168.1.2/24"), name="h2"))

CASES: list[tuple[str, tuple[HostFacts, ...], dict[str, str], tuple[str, str, str, str]]] = [
    ("two plain hosts", hosts(2), {}, ("ethernet", "10.0.0.0/16", "eth0", "the only subnet common to all hosts")),
    ("the faster of two", TWO_NETWORKS, {}, ("ethernet", "10.9.0.0/24", "eth1", "fastest of 2 common subnets (25000")),
    ("speeds unknown", UNKNOWN_SPEED, {}, ("ethernet", "192.168.1.0/24", "eth0", "the default route's, of 2")),
    ("InfiniBand first", IB, {}, ("ib", "10.10.0.0/24", "ib0", "InfiniBand, best of 2 common subnets")),
    ("ethernet asked for", IB, {"fabric": "ethernet"}, ("ethernet", "192.168.1.0/24", "eth0", "the only subnet")),
    ("ib asked for", IB, {"fabric": "ib"}, ("ib", "10.10.0.0/24", "ib0", "the only subnet")),
    (
        "a network asked for",
        IB,
        {"network": "192.168.0.0/16"},
        ("ethernet", "192.168.0.0/16", "eth0", "ddp_job_network"),
    ),
    ("one host has no ib", ONE_WITH_IB, {}, ("ethernet", "192.168.1.0/24", "eth0", "the only subnet")),
]


@pytest.mark.parametrize(("facts", "asked", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_choice(facts: tuple[HostFacts, ...], asked: dict[str, str], expected: tuple[str, str, str, str]) -> None:
    fabric, network, interface, reason = expected
    choice = choose_fabric(facts, **asked)
    assert (choice.fabric, choice.network) == (fabric, network)
    assert {point.interface for point in choice.endpoints.values()} == {interface}
    assert reason in choice.reason
    for item in facts:
        mine = {address.split("/")[0] for link in item.interfaces for address in link.addresses}
        assert choice.endpoints[item.name].address in mine


def test_each_host_has_its_own_interface_name() -> None:
    facts = (on(ethernet("10.0.0.1/24", name="enp1s0")), on(ethernet("10.0.0.2/24", name="eno2"), name="h2"))
    assert {name: point.interface for name, point in choose_fabric(facts).endpoints.items()} == {
        "h1": "enp1s0",
        "h2": "eno2",
    }


def test_one_machine_meets_on_loopback_under_any_number_of_names() -> None:
    facts = (host("a", machine="m"), host("b", machine="m"))
    choice = choose_fabric(facts)
    assert choice.fabric == "local"
    assert {(point.interface, point.address) for point in choice.endpoints.values()} == {("lo", "127.0.0.1")}


def test_one_machine_on_an_interface_of_the_users_choice() -> None:
    choice = choose_fabric((host(interface="eth0"),))
    assert choice.endpoints["h1"].address == "10.0.0.1"


def test_ddp_interface_wins_even_over_what_we_would_not_take() -> None:
    bridged = [on(ethernet(f"10.0.0.{n}/24", name="br0", bridge=True), name=f"h{n}") for n in (1, 2)]
    facts = tuple(dataclasses.replace(item, interface="br0") for item in bridged)
    choice = choose_fabric(facts)
    assert choice.reason == "ddp_interface"
    assert choice.endpoints["h2"].interface == "br0"


@pytest.mark.parametrize(
    "links",
    [
        (),
        (DOCKER0,),
        (ethernet("172.18.0.1/16", name="br-1f2e"),),
        (ethernet("10.88.0.1/16", name="podman0", bridge=True),),
    ],
)
def test_container_bridges_are_no_network(links: tuple[Interface, ...]) -> None:
    facts = (on(*links), on(*links, name="h2"))
    with pytest.raises(HostNotReady, match="h1, h2: no usable interface; it has lo"):
        choose_fabric(facts)


def pair(*make: Any, **fields: Any) -> tuple[HostFacts, ...]:
    """h1 and h2, each with the interfaces that the functions make of its number."""
    return tuple(on(*(one(n) for one in make), name=f"h{n}", **fields) for n in (1, 2))


def bridge(name: str, address: str, **more: Any) -> Any:
    return lambda n: ethernet(address.format(n), name=name, bridge=True, **{"default_route": False, **more})


@pytest.mark.parametrize(
    ("facts", "asked", "interface"),
    [
        (pair(bridge("br0", "10.0.0.{}/24", default_route=True)), {}, "br0"),
        (pair(bridge("br0", "10.0.0.{}/24")), {"network": "10.0.0.0/24"}, "br0"),
        (pair(bridge("vmbr0", "10.0.0.{}/24"), interface="vmbr0"), {}, "vmbr0"),
        (pair(bridge("br-lan", "10.0.0.{}/24"), interface="br-lan"), {}, "br-lan"),
        (pair(lambda n: ethernet(f"10.0.0.{n}/24", name="bond0", default_route=False)), {}, "bond0"),
        (pair(lambda n: ethernet(f"10.0.0.{n}/24", name="bond0.42", virtual=True)), {}, "bond0.42"),
        (pair(bridge("br0", "10.0.0.{}/24", default_route=True), bridge("virbr0", "192.168.122.1/24")), {}, "br0"),
        (pair(lambda n: ethernet(f"10.0.0.{n}/32"), interface="eth0"), {}, "eth0"),
        (pair(lambda n: ethernet(f"10.{n}.0.9/24"), interface="eth0"), {}, "eth0"),
        (pair(lambda n: ethernet(f"2001:db8::{n}/128"), interface="eth0"), {}, "eth0"),
        (pair(lambda n: ethernet(f"2001:db8::{n}/64")), {}, "eth0"),
        (pair(lambda n: ethernet(f"10.0.0.{n}/32")), {"network": "10.0.0.0/16"}, "eth0"),
    ],
    ids=[
        "a bridge with the default route",
        "a bridge in ddp_job_network",
        "a bridge by ddp_interface",
        "a name like docker's by ddp_interface",
        "a bond",
        "a VLAN",
        "a bridge of the host next to one of libvirt",
        "/32 by ddp_interface",
        "subnets with a router by ddp_interface",
        "/128 by ddp_interface",
        "IPv6 only",
        "/32 in ddp_job_network",
    ],
)
def test_networks_of_data_centres_and_clouds(
    facts: tuple[HostFacts, ...], asked: dict[str, str], interface: str
) -> None:
    choice = choose_fabric(facts, **asked)
    assert {point.interface for point in choice.endpoints.values()} == {interface}
    assert choice.fabric == "ethernet"
    network = ipaddress.ip_network(choice.network)
    assert all(ipaddress.ip_address(point.address) in network for point in choice.endpoints.values())
    assert len({point.address for point in choice.endpoints.values()}) == 2


@pytest.mark.parametrize("name", ["docker0", "virbr0", "cni0", "br-1f2e", "veth1", "lxcbr0"])
def test_bridges_of_engines_are_no_network_even_in_ddp_job_network(name: str) -> None:
    with pytest.raises(HostNotReady, match="h1: no usable interface"):
        choose_fabric(pair(bridge(name, "172.17.0.{}/16", default_route=True)), network="172.17.0.0/16")


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        (pair(lambda n: ethernet(f"10.0.0.{n}/32")), "set ddp_interface for every host, or ddp_job_network"),
        (pair(lambda n: ethernet(("10.0.0.1/32", "2001:db8::1/128")[n - 1]), interface="eth0"), "of one family"),
        (pair(lambda _: ethernet("10.0.0.1/32"), interface="eth0"), "different addresses"),
    ],
    ids=["/32 without ddp_interface", "one family each", "one address twice"],
)
def test_no_common_subnet_has_a_hint_that_helps(facts: tuple[HostFacts, ...], hint: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        choose_fabric(facts)
    assert hint in caught.value.hint


def test_both_families_prefer_ipv4_on_all_hosts() -> None:
    dual = pair(lambda n: dataclasses.replace(ethernet(), addresses=(f"2001:db8::{n}/64", f"10.0.0.{n}/24")))
    assert {point.address for point in choose_fabric(dual).endpoints.values()} == {"10.0.0.1", "10.0.0.2"}
    mixed = (dual[0], on(ethernet("2001:db8::2/64"), name="h2"))
    assert {point.address for point in choose_fabric(mixed).endpoints.values()} == {"2001:db8::1", "2001:db8::2"}


def test_one_machine_on_an_interface_with_ipv6_only() -> None:
    choice = choose_fabric((on(ethernet("2001:db8::1/64"), interface="eth0"),))
    assert choice.endpoints["h1"].address == "2001:db8::1"


def test_a_link_that_is_down_is_no_network() -> None:
    facts = (on(ethernet("10.0.0.1/24", up=False)), on(ethernet("10.0.0.2/24"), name="h2"))
    with pytest.raises(HostNotReady, match="h1: no usable interface"):
        choose_fabric(facts)


def test_no_common_subnet_shows_the_table() -> None:
    facts = (on(ethernet("10.0.0.1/24")), on(ethernet("10.1.0.1/24"), name="h2"))
    with pytest.raises(HostNotReady) as caught:
        choose_fabric(facts)
    assert caught.value.message.splitlines() == [
        "the hosts have no subnet in common:",
        "  h1: 10.0.0.1 in 10.0.0.0/24",
        "  h2: 10.1.0.1 in 10.1.0.0/24",
    ]
    assert "ddp_job_network" in caught.value.hint


def test_a_network_where_two_machines_have_the_same_address_joins_nobody() -> None:
    """Virtual machines behind an address translation of their own: every one is 10.0.2.15."""
    nat = ethernet("10.0.2.15/24", speed=None)
    facts = tuple(on(nat, ethernet(f"10.9.0.{n}/24", name="eth1", speed=None), name=f"h{n}") for n in (1, 2))
    assert choose_fabric(facts).network == "10.9.0.0/24"
    with pytest.raises(HostNotReady, match=r"no subnet in common \(in 10.0.2.0/24 two have the same address\)"):
        choose_fabric((on(nat), on(nat, name="h2")))
    twice = (on(nat), on(nat, name="alias"), on(ethernet("10.0.2.16/24"), name="h2"))
    same = tuple(dataclasses.replace(item, machine="one") for item in twice[:2])
    assert choose_fabric((*same, twice[2])).network == "10.0.2.0/24"


@pytest.mark.parametrize(
    ("facts", "asked", "error", "words"),
    [
        (
            hosts(2, interface="eth7"),
            {},
            HostNotReady,
            r"h1: interface eth7 \(ddp_interface\) does not exist; it has lo",
        ),
        ((host(interface="eth7"),), {}, HostNotReady, r"h1: interface eth7 \(ddp_interface\) does not exist; it has"),
        (hosts(2), {"fabric": "ib"}, HostNotReady, r"h1: no usable InfiniBand interface with an address \(IPoIB\)"),
        (
            hosts(2),
            {"network": "192.168.7.0/24"},
            HostNotReady,
            r"in 192\.168\.7\.0/24; it has .*eth0 \(10\.0\.0\.2/16\)",
        ),
        (hosts(2), {"network": "tenten"}, UsageError, "'tenten' is not a network"),
    ],
)
def test_refusals(facts: tuple[HostFacts, ...], asked: dict[str, str], error: type[DdpPlayError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        choose_fabric(facts, **asked)
    assert caught.value.hint


def test_an_interface_without_address_or_with_link_local_only_does_not_count() -> None:
    facts = tuple(
        on(infiniband(), ethernet("169.254.0.9/16", name="eth1", speed=25000), ethernet(f"10.0.0.{n}/24"), name=f"h{n}")
        for n in (1, 2)
    )
    assert choose_fabric(facts).network == "10.0.0.0/24"


def test_what_the_host_name_resolves_to_does_not_matter() -> None:
    one, other = hosts(2), tuple(dataclasses.replace(item, resolves_to=("10.0.0.9",)) for item in hosts(2))
    assert choose_fabric(one) == choose_fabric(other)
    assert "127.0.1.1" not in str(choose_fabric(one))


def test_among_equals_the_choice_is_the_same_in_every_process() -> None:
    """Sets of texts iterate in another order in every process: the plan must not."""
    facts = tuple(
        on(*(ethernet(f"10.{net}.0.{n}/24", name=f"eth{net}", default_route=False) for net in range(9)), name=f"h{n}")
        for n in (1, 2)
    )
    assert choose_fabric(facts).network == "10.0.0.0/24"


def test_among_equals_ipv4_comes_first() -> None:
    facts = tuple(
        on(dataclasses.replace(ethernet(), addresses=(f"2001:db8::{n}/64", f"203.0.113.{n}/24")), name=f"h{n}")
        for n in (1, 2)
    )
    assert choose_fabric(facts).network == "203.0.113.0/24"


def test_ipv6_alone_works() -> None:
    facts = tuple(on(ethernet(f"2001:db8::{n}/64"), name=f"h{n}") for n in (1, 2))
    assert choose_fabric(facts).endpoints["h2"].address == "2001:db8::2"


def test_nothing_asked_changes_nothing() -> None:
    """The no-op case: naming what would be chosen anyway gives the same endpoints."""
    assert choose_fabric(IB, fabric="ib", network="10.10.0.0/24").endpoints == choose_fabric(IB).endpoints
