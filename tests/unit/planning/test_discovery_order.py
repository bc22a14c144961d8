"""Which hosts are asked, wave by wave."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.planning.discovery_order import next_wave, not_asked
from tests.unit.build import job

HOSTS = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("values", "asked", "num_usable", "wave"),
    [
        ({}, "", 0, "abcde"),
        ({}, "abcde", 0, ""),
        ({"hosts": "2.."}, "", 0, "abcde"),
        ({"hosts": 2}, "", 0, "ab"),
        ({"hosts": 2}, "ab", 2, ""),
        ({"hosts": 2}, "ab", 1, "c"),
        ({"hosts": 2}, "abcd", 0, "e"),
        ({"hosts": 2}, "abcde", 1, ""),
        ({"hosts": "1..3"}, "", 0, "abc"),
        ({"hosts": 2, "spares": ["a", "e"]}, "", 0, "bcae"),
        ({"hosts": 2, "spares": ["a", "e"]}, "bcae", 1, "d"),
        ({"hosts": 2, "restarts": 1}, "", 0, "abc"),
        ({"hosts": 2, "restarts": 9}, "", 0, "abcd"),
        ({"hosts": 2, "restarts": 1}, "abc", 2, "d"),
    ],
)
def test_the_next_hosts_to_ask(values: dict[str, Any], asked: str, num_usable: int, wave: str) -> None:
    assert next_wave(job(**values), HOSTS, set(asked), num_usable) == list(wave)


@pytest.mark.parametrize(("asked", "name"), [("abcde", None), ("abcd", "e"), ("ab", "c and 2 more"), ("acde", "b")])
def test_one_row_for_all_others(asked: str, name: str | None) -> None:
    rows = not_asked(HOSTS, set(asked))
    assert [row[0] for row in rows] == ([name] if name else [])
