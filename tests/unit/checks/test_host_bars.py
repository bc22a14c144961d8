"""Bars of hosts: bands as wide as the checks are, and what is outside of them."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.host_bars import MOST_BARS, BarGroup, bar_groups, natural
from ddp_play.planning.host_facts import Gpu

from .fleets import fleet
from .matrices import with_matrix


def group(title: str, groups: tuple[BarGroup, ...]) -> BarGroup:
    (found,) = [row for row in groups if row.title == title]
    return found


def odd(title: str, groups: tuple[BarGroup, ...]) -> list[str]:
    return [bar.host for bar in group(title, groups).bars if bar.is_odd]


def test_equal_hosts_are_all_within_the_band_and_one_host_has_no_bars() -> None:
    groups = bar_groups(with_matrix(fleet(3)))
    assert {"Sends, median", "Receives, median", "Round trip, median", "CPUs", "Memory"} <= {
        row.title for row in groups
    }
    assert not any(bar.is_odd for row in groups for bar in row.bars)
    assert all(0 <= row.low_percent <= row.high_percent <= 100 for row in groups)
    assert bar_groups(fleet(1)) == ()


@pytest.mark.parametrize(
    ("title", "change", "hosts"),
    [
        ("CPUs", {"cpu.usable": 127}, ["h4"]),
        ("GPUs", {"facts.gpus": (Gpu(0, "GPU-a", "H200", 143771),)}, ["h4"]),
        ("Memory", {"memory.total_mib": 400_000}, ["h4"]),
        ("Memory", {"memory.total_mib": 480_000}, []),
        ("Memory", {"memory.total_mib": 900_000}, []),
        ("CPU clock limit", {"governor.max_mhz": 2000}, ["h4"]),
        ("Clock offset", {"clock": {"offset_s": 0.3, "trip_s": 0.002}}, []),
        ("Clock offset", {"clock": {"offset_s": -2.0, "trip_s": 0.002}}, ["h4"]),
        ("Slowest name", {"names.h1/took_s": 0.5}, []),
        ("Slowest name", {"names.h1/took_s": 1.5}, ["h4"]),
    ],
)
def test_a_host_is_outside_where_the_checks_would_name_it(title: str, change: dict[str, Any], hosts: list[str]) -> None:
    common: dict[str, Any] = {"governor.max_mhz": 3500, "facts.gpus": tuple(Gpu(n, f"{n}", "H", 1) for n in range(8))}
    others = dict.fromkeys(("h1", "h2", "h3"), common)
    assert odd(title, bar_groups(fleet(4, **others, h4={**common, **change}))) == hosts


def test_rates_have_the_band_of_the_check_which_is_wider_where_cpus_were_the_limit() -> None:
    slow: dict[str, Any] = {f"h4_{other}": {"mbps": 850.0} for other in ("h1", "h2", "h3")}
    assert odd("Sends, median", bar_groups(with_matrix(fleet(4), **slow))) == ["h4"]
    starved = {f"{one}_{other}": {"busy": 0.9} for one in ("h1", "h2", "h3") for other in ("h1", "h2", "h3", "h4")}
    assert odd("Sends, median", bar_groups(with_matrix(fleet(4), **{**starved, **slow}))) == []


def test_a_round_trip_of_half_a_millisecond_more_is_like_the_others() -> None:
    def trips(rtt_ms: float) -> dict[str, Any]:
        return {f"h4_{other}": {"rtt_ms": rtt_ms} for other in ("h1", "h2", "h3")}

    assert odd("Round trip, median", bar_groups(with_matrix(fleet(4), **trips(0.55)))) == []
    assert odd("Round trip, median", bar_groups(with_matrix(fleet(4), **trips(0.7)))) == ["h4"]


def test_strange_answers_of_hosts_are_no_bars() -> None:
    strange: dict[str, Any] = {"cpu": ["no", "mapping"], "memory.total_mib": float("nan"), "governor.max_mhz": "much"}
    groups = bar_groups(fleet(3, h1=strange, h2=strange))
    assert not {"CPUs", "Memory", "CPU clock limit"} & {row.title for row in groups}


def test_of_many_hosts_those_far_from_the_median_are_shown() -> None:
    # addresses of the fleet are 10.0.0.N
    count = MOST_BARS + 10
    found = group("CPUs", bar_groups(fleet(count, h70={"cpu.usable": 1})))
    assert (len(found.bars), found.num_left_out) == (MOST_BARS, 10)
    assert [bar.host for bar in found.bars if bar.is_odd] == ["h70"]


def test_hosts_are_in_the_order_of_their_numbers() -> None:
    assert [bar.host for bar in group("CPUs", bar_groups(fleet(11))).bars] == [f"h{n}" for n in range(1, 12)]
    names = ["h10", "h2", "10.0.0.10", "10.0.0.9", "a", "h\u00b2", "h" + 30 * "9"]
    assert sorted(names, key=natural)[:2] == ["10.0.0.9", "10.0.0.10"]
    assert sorted(names, key=natural).index("h2") < sorted(names, key=natural).index("h10")
