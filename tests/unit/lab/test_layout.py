"""Names and addresses of a lab's hosts and networks."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from ddp_play.errors import UsageError
from ddp_play.lab.layout import find_host, plan_lab
from ddp_play.lab.spec import LabSpec, make_spec

SPEC = make_spec(LabSpec(name="t", num_hosts=3, slots=(2, 1, 1)))
TWO_FABRICS = make_spec(LabSpec(name="t", num_hosts=2, slots=(), num_fabrics=2))


def test_hosts_get_fixed_addresses_after_the_gateway() -> None:
    plan = plan_lab(SPEC)
    assert [host.addresses for host in plan.hosts] == [("10.213.0.2",), ("10.213.0.3",), ("10.213.0.4",)]
    assert [host.slots for host in plan.hosts] == [2, 1, 1]
    assert plan.networks[0].gateway == "10.213.0.1"


def test_the_same_spec_gives_the_same_plan() -> None:
    assert plan_lab(SPEC) == plan_lab(SPEC)


def test_with_two_fabrics_ssh_uses_the_management_network() -> None:
    plan = plan_lab(TWO_FABRICS)
    assert [network.kind for network in plan.networks] == ["mgmt", "fast"]
    assert plan.hosts[0].addresses == ("10.213.0.2", "10.213.1.2")
    # Docker numbers interfaces by network name: eth0 must be the management network
    assert sorted(network.name for network in plan.networks) == [network.name for network in plan.networks]


def test_taken_networks_are_avoided() -> None:
    taken = (IPv4Network("10.213.0.0/23"), IPv4Network("10.213.3.64/26"))
    assert [n.subnet for n in plan_lab(TWO_FABRICS, taken=taken).networks] == ["10.213.2.0/24", "10.213.4.0/24"]


def test_no_free_subnet_is_refused() -> None:
    with pytest.raises(UsageError, match="no free network"):
        plan_lab(SPEC, taken=(IPv4Network("10.0.0.0/8"),))


def test_a_requested_subnet_that_the_machine_uses_is_refused() -> None:
    spec = make_spec(LabSpec(name="t", num_hosts=2, slots=(), subnets=("192.168.1.0/24",)))
    with pytest.raises(UsageError, match=r"192\.168\.1\.0/24 overlaps 192\.168\.0\.0/16"):
        plan_lab(spec, taken=(IPv4Network("192.168.0.0/16"),))
    assert plan_lab(spec).hosts[0].addresses == ("192.168.1.2",)


@pytest.mark.parametrize("name", ["h2", "2"])
def test_a_host_is_found_by_name_or_number(name: str) -> None:
    assert find_host(plan_lab(SPEC), name).name == "h2"


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(UsageError, match="has no host h9"):
        find_host(plan_lab(SPEC), "h9")


def test_names_of_two_labs_differ() -> None:
    one, other = plan_lab(SPEC), plan_lab(make_spec(LabSpec(name="u", num_hosts=3, slots=())))
    assert not {host.container for host in one.hosts} & {host.container for host in other.hosts}
    assert not {host.volume for host in one.hosts} & {host.volume for host in other.hosts}
    assert one.shared_volume != other.shared_volume
