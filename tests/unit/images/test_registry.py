"""Choice of the registry's host, the role's variables, and references by digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.errors import UsageError
from ddp_play.images.archive import HostImage
from ddp_play.images.registry import Registry, choose_registry, digest_of, role_variables
from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.role_specs import read_specs, value_problems

RANKS = Group("ranks", ("h1", "h2"))
ADDRESSES = {"h1": {"ansible_host": "10.0.0.1"}, "h2": {}, "store": {"ansible_host": "10.0.0.9"}}


def inventory(*groups: Group, **variables: dict[str, object]) -> Inventory:
    return Inventory({group.name: group for group in groups}, {**ADDRESSES, **variables})


def test_the_first_host_of_ranks_serves_where_no_other_is_named() -> None:
    assert choose_registry(inventory(RANKS), tls=True) == Registry("h1", "10.0.0.1")


def test_group_registry_names_the_host_of_the_registry() -> None:
    assert choose_registry(inventory(RANKS, Group("registry", ("store",))), tls=True).host == "store"


def test_the_inventory_sets_the_registrys_address() -> None:
    variables: dict[str, object] = {
        "image_distribution_registry_address": "store.ib",
        "image_distribution_registry_port": "5001",
    }
    found = choose_registry(inventory(Group("registry", ("store",)), store=variables), tls=True)
    assert found.name == "store.ib:5001"


def test_a_host_without_an_address_is_known_by_its_name() -> None:
    assert choose_registry(inventory(Group("registry", ("h2",))), tls=True).address == "h2"


def test_no_hosts() -> None:
    with pytest.raises(UsageError, match="no hosts"):
        choose_registry(Inventory({}, {}), tls=True)


def test_without_tls_an_engine_knows_its_loopback_only() -> None:
    assert choose_registry(inventory(RANKS), tls=False).name == "127.0.0.1:5000"


@pytest.mark.parametrize(
    ("digests", "found"),
    [
        ((), ""),
        (("10.0.0.1:5001/train@sha256:ab",), ""),
        (("elsewhere/train@sha256:ab", "10.0.0.1:5000/train@sha256:cd"), "10.0.0.1:5000/train@sha256:cd"),
    ],
)
def test_only_the_registrys_own_digest_counts(digests: tuple[str, ...], found: str) -> None:
    assert digest_of(HostImage("h1", "content", digests=digests), Registry("h1", "10.0.0.1")) == found


@pytest.mark.parametrize(
    ("image", "name"),
    [("train", "train:latest"), ("train:2", "train:2"), ("host:5000/train", "host:5000/train:latest")],
)
def test_variables_for_the_role_fit_its_spec(image: str, name: str) -> None:
    spec = read_specs()["image_distribution"]
    variables = role_variables(image, Path("/var/tmp/x/image.tar"), Registry("h1", "10.0.0.1", tls=False))
    assert [text for key, value in variables.items() for text in value_problems(key, spec[key], value)] == []
    assert variables["image_distribution_images"] == [{"name": name, "archive": "/var/tmp/x/image.tar"}]
    assert variables["image_distribution_registry_tls"] is False
