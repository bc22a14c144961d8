"""The container by which verify proves that an image starts is in the network in which a run's containers are."""

from __future__ import annotations

import itertools

from tests.content.role_files import ROOT, read
from tests.unit.build import engine, host, plan

VARIABLES = ROOT / "roles/image_distribution/vars/main.yml"


def network(words: list[str]) -> list[str]:
    return [value for name, value in itertools.pairwise(words) if name == "--network"]


def test_it_has_the_network_of_a_rank() -> None:
    (row,) = plan(host(engine=engine()), image="train:1").hosts
    assert network(read(VARIABLES)["__image_distribution_container"]) == network([*row.rank(0).create]) == ["host"]
