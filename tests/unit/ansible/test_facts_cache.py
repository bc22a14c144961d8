"""File with the facts of the last discovery: one for each inventory."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.ansible.facts_cache import facts_cache
from ddp_play.ansible.runner import PlaybookRequest

REQUEST = PlaybookRequest("/play/train.yml", ("/inv",), "/play")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"cwd": "/elsewhere"}, True),
        ({"playbook": "/other.yml"}, True),
        ({"inventory": ("/inv2",)}, False),
        ({"inventory": ("/inv", "/inv2")}, False),
    ],
)
def test_facts_are_cached_by_inventory(other: dict[str, Any], same: bool) -> None:
    given = PlaybookRequest(**{"playbook": "/play/train.yml", "inventory": ("/inv",), "cwd": "/play", **other})
    assert (facts_cache(given) == facts_cache(REQUEST)) is same


def test_without_an_inventory_the_directory_counts() -> None:
    here, there = (PlaybookRequest("/p.yml", (), where) for where in ("/a", "/b"))
    assert facts_cache(here) != facts_cache(there)
