"""Values of hosts against their median: named only if they are few, far off, and not within the scatter of all."""

from __future__ import annotations

import random

import pytest

from ddp_play.checks.relative_rule import too_low

FIGURE = "speed of processors"


def hosts(*values: float) -> dict[str, float]:
    return {f"h{at}": value for at, value in enumerate(values, 1)}


@pytest.mark.parametrize(
    ("values", "low"),
    [
        ((100, 101, 99, 100), ()),
        ((100, 101, 99, 80), ("h4",)),
        ((100, 101, 99, 91), ()),  # within ten percent
        ((100, 70, 130, 85), ()),  # all scatter: three and a half of their deviations are more
        ((100, 100, 100, 100, 70, 60), ("h5", "h6")),
        ((100, 60, 60, 100), ()),  # half of them
        ((100, 60), ()),
        ((60,), ()),
        ((0, 0, 0), ()),
    ],
)
def test_who_is_named(values: tuple[float, ...], low: tuple[str, ...]) -> None:
    assert too_low(hosts(*values), FIGURE).low == low


def test_what_is_said_of_the_others() -> None:
    found = too_low(hosts(100, 102, 98, 50), FIGURE)
    assert (found.usual, found.others, found.unit) == (99.0, 100.0, "GFLOP/s")
    assert 50 < found.least < 90
    assert "90% of the median of 4" in found.source
    assert "ddp-play" in found.source


def test_a_figure_without_a_limit_is_refused() -> None:
    with pytest.raises(LookupError):
        too_low(hosts(1, 2, 3), "colour")


@pytest.mark.parametrize("number", [3, 8, 64])
def test_equal_hosts_are_rarely_named_and_a_slow_one_is(number: int) -> None:
    """Healthy hosts scatter by 3 %; the check measures suspects twice and takes the better value."""
    chance = random.Random(7)
    alarms = missed = 0
    for _ in range(300):
        once, again = ({host: chance.gauss(100, 3) for host in hosts(*range(number))} for _ in range(2))
        best = {host: max(once[host], again[host]) for host in once}
        alarms += bool(too_low(once, FIGURE).low and too_low(best, FIGURE).low)
        missed += "h2" not in too_low({**best, "h2": 0.75 * best["h2"]}, FIGURE).low
    assert alarms <= 3
    assert missed <= 15
