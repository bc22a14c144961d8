"""Checks of the options of `lab up`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddp_play.errors import UsageError
from ddp_play.lab.spec import LabSpec, make_spec, parse_slots

THREE = LabSpec(name="t", num_hosts=3, slots=())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ()), ("2", (2,)), ("2,1,1", (2, 1, 1)), (" 2, 1 ,1", (2, 1, 1))],
)
def test_slots_are_numbers_separated_by_commas(text: str, expected: tuple[int, ...]) -> None:
    assert parse_slots(text) == expected


@pytest.mark.parametrize(
    ("slots", "expected"),
    [((), (1, 1, 1)), ((4,), (4, 4, 4)), ((2, 1, 1), (2, 1, 1))],
)
def test_slots_are_spread_over_the_hosts(slots: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert make_spec(replace(THREE, slots=slots)).slots == expected


def test_a_whole_spec_stays_as_it_is() -> None:
    spec = replace(THREE, slots=(2, 1, 1), subnets=("10.9.0.0/24",))
    assert make_spec(spec) == spec


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "--name ''"),
        ({"name": "Lab"}, "--name 'Lab'"),
        ({"name": "../etc"}, "--name '../etc'"),
        ({"name": "a" * 33}, "1 to 32"),
        ({"num_hosts": 0}, "--hosts is 0"),
        ({"num_hosts": 500}, "1 to 128 are allowed"),
        ({"num_fabrics": 3}, "--fabrics is 3"),
        ({"slots": (2, 1)}, "--slots has 2 numbers for 3 hosts"),
        ({"slots": (0,)}, "--slots is 0"),
        ({"user": "alice"}, "--user is 'alice'"),
        ({"subnets": ("10.9.0.0/24", "10.9.1.0/24")}, "given 2 times for 1 fabrics"),
        ({"subnets": ("10.9.0.1/24",)}, "has host bits set"),
        ({"subnets": ("10.9.0.0/30",)}, "room for 1 hosts, not 3"),
        ({"subnets": ("10.9.0.0/24", "10.9.0.0/25"), "num_fabrics": 2}, "overlap"),
    ],
)
def test_contradicting_options_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_spec(replace(THREE, **change))  # type: ignore[arg-type]
    assert words in caught.value.message


def test_slots_are_numbers() -> None:
    with pytest.raises(UsageError, match="whole numbers"):
        parse_slots("two")
