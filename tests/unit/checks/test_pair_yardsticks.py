"""What is judged, and its limits."""

from __future__ import annotations

import math

import pytest

from ddp_play.checks.pair_attribution import Norm
from ddp_play.checks.pair_samples import PairEnd, Sample
from ddp_play.checks.pair_yardsticks import Yardstick, is_starved, link_speed, yardsticks


def ends(**speeds: float | None) -> dict[str, PairEnd]:
    return {host: PairEnd(host, link_mbps=speed) for host, speed in speeds.items()}


def rate(found: tuple[Yardstick, ...], source: str) -> Yardstick:
    return next(row for row in found if row.metric == "rate" and source in row.source)


def test_the_link_of_a_pair_is_that_of_the_slower_end() -> None:
    known = ends(a=10_000, b=25_000, c=None)
    assert link_speed(known, ("a", "b")) == 10_000
    assert link_speed(known, ("a", "c")) is None


def test_without_link_speed_and_record_there_is_only_the_comparison() -> None:
    assert [row.relative for row in yardsticks(ends(a=None, b=None), {}) if row.metric == "rate"] == [True]
    found = yardsticks(ends(a=1000, b=1000), {("a", "b"): 900.0})
    assert [row.source for row in found if row.metric == "rate"][1:] == ["80% of link speed", "85% of its own record"]


def test_a_host_may_be_a_tenth_slower_or_as_much_as_the_fleet_scatters() -> None:
    row = rate(yardsticks(ends(a=None), {}), "median")
    even = Norm(-math.log(1000), -math.log(1000), 0.0)
    assert math.exp(-row.part_limit(even, 15)) == pytest.approx(900)
    assert math.exp(-row.cell_limit(even)) == pytest.approx(820)
    wide = Norm(even.part, even.cell, 0.1)
    assert math.exp(-row.part_limit(wide, 4)) == pytest.approx(1000 * math.exp(-0.175))
    assert math.exp(-row.cell_limit(wide)) == pytest.approx(1000 * math.exp(-0.35))


def test_rates_of_different_links_are_compared_as_parts_of_the_link() -> None:
    row = rate(yardsticks(ends(a=10_000, b=25_000, c=25_000), {}), "median")
    slow, fast = row.badness(Sample("a", "b", 9_400)), row.badness(Sample("b", "c", 23_500))
    assert slow == pytest.approx(fast)
    assert row.shown(-math.log(0.94)) == "94% of link speed"


def test_limits_that_were_known_before() -> None:
    found = yardsticks(ends(a=1000, b=1000), {("a", "b"): 900.0})
    link, record = rate(found, "link speed"), rate(found, "record")
    no_norm = Norm(0, 0, 0)
    assert link.badness(Sample("a", "b", 799)) > link.cell_limit(no_norm)  # type: ignore[operator]
    assert link.badness(Sample("a", "b", 801)) < link.cell_limit(no_norm)  # type: ignore[operator]
    assert record.badness(Sample("b", "a", 100)) is None
    assert record.badness(Sample("a", "b", 700)) > record.part_limit(no_norm, 1)  # type: ignore[operator]
    assert link.badness(Sample("a", "b", problem="died")) is None


def test_loss_latency_and_checksum_errors() -> None:
    by_metric = {row.metric: row for row in yardsticks(ends(a=None), {})}
    loss, latency, sums = (by_metric[name] for name in ("retransmits", "latency", "checksum errors"))
    disorder = by_metric["out of order"]
    assert disorder.cell_limit(Norm(0, 0, 0)) == 0.05
    assert disorder.part_limit(Norm(0.02, 0, 0), 3) == 0.1
    assert loss.cell_limit(Norm(0, 0, 0)) == 0.001
    assert loss.part_limit(Norm(0.01, 0, 0), 3) == 0.05
    assert latency.cell_limit(Norm(0, 0.1, 0)) == pytest.approx(0.6)
    assert latency.part_limit(Norm(5.0, 0, 0), 3) == 10.0
    assert sums.badness(Sample("a", "b", 1.0, checksum_errors=1)) > sums.cell_limit(Norm(0, 0, 0))  # type: ignore[operator]
    assert sums.badness(Sample("a", "b", problem="died")) is None
    for row in by_metric.values():
        assert row.shown(0.5)


def test_where_cpus_were_the_limit_of_most_rates_a_rate_must_be_far_below() -> None:
    assert not is_starved([Sample("a", "b", 1.0), Sample("b", "a", 1.0, busy=0.9)])
    assert is_starved([Sample("a", "b", 1.0, busy=0.8), Sample("b", "a", 1.0, busy=0.9)])
    row = rate(yardsticks(ends(a=None), {}, starved=True), "median of the hosts less 50 %")
    even = Norm(-math.log(1000), -math.log(1000), 0.0)
    assert math.exp(-row.part_limit(even, 15)) == pytest.approx(500)
    assert math.exp(-row.cell_limit(even)) == pytest.approx(500)
