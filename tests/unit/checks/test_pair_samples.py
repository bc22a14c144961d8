"""A measurement of one direction: what it says, and as a row of a document."""

from __future__ import annotations

from ddp_play.checks.pair_samples import CPU_LIMIT, Sample, not_run, ordered


def test_a_row_has_all_fields_and_both_directions_are_one_pair() -> None:
    sample = Sample("h2", "h1", 940.5, 0.1, 0.05, 1000, 3, 1, 2, 0.1, 0.3)
    assert Sample(**sample.to_json()) == sample
    assert sample.pair == ("h1", "h2") == ordered("h2", "h1")


def test_loss_needs_enough_segments() -> None:
    assert Sample("a", "b", 1.0, segments=1000, retransmits=10).loss == 0.01
    assert Sample("a", "b", 1.0, segments=499, retransmits=10).loss is None
    assert Sample("a", "b", 1.0, segments=1000, out_of_order=50).disorder == 0.05
    assert Sample("a", "b", 1.0, segments=499, out_of_order=50).disorder is None


def test_who_was_the_limit() -> None:
    assert not Sample("a", "b", 1.0, busy=CPU_LIMIT).cpu_limited
    assert Sample("a", "b", 1.0, busy=CPU_LIMIT + 0.01).cpu_limited


def test_the_rate_while_data_was_on_its_way() -> None:
    assert Sample("a", "b", 900.0, idle=0.1).carried_mbps == 1000.0
    assert Sample("a", "b", 900.0).carried_mbps == 900.0
    assert Sample("a", "b", 700.0, idle=0.9).carried_mbps == 700.0 / (1 - CPU_LIMIT), "no more than counts as evidence"
    assert Sample("a", "b", problem="died").carried_mbps is None


def test_a_pair_that_was_not_measured_has_no_number_in_either_direction() -> None:
    there, back = not_run("a", "b", "timed out", unmet=True)
    assert (there.source, back.source) == ("a", "b")
    assert there.mbps is back.mbps is None
    assert there.unmet
    assert not not_run("a", "b", "died")[0].unmet
