"""Hosts and pairs that were not met."""

from __future__ import annotations

from itertools import combinations

from ddp_play.checks.pair_reach import unreached
from ddp_play.checks.pair_samples import Sample, not_run


def fleet(hosts: str, dead: set[str], why: str = "timed out", *, unmet: bool = True) -> list[Sample]:
    rows: list[Sample] = []
    for one, other in combinations(hosts, 2):
        if one + other in dead:
            rows += not_run(one, other, why, unmet=unmet)
        else:
            rows += [Sample(one, other, 1.0), Sample(other, one, 1.0)]
    return rows


def test_all_met() -> None:
    assert unreached("abcd", fleet("abcd", set())) == ({}, {}, "")


def test_a_host_that_met_nobody() -> None:
    assert unreached("abcd", fleet("abcd", {"ab", "ac", "ad"})) == ({"a": ("timed out", 3)}, {}, "")


def test_a_pair_of_which_both_met_others() -> None:
    assert unreached("abcd", fleet("abcd", {"ab"})) == ({}, {("a", "b"): "timed out"}, "")


def test_with_one_partner_only_it_may_be_the_way_between_them() -> None:
    rows = [*not_run("a", "b", "timed out", unmet=True), Sample("b", "c", 1.0), Sample("c", "b", 1.0)]
    assert unreached("abc", rows) == ({}, {("a", "b"): "timed out"}, "")


def test_nobody_met_anybody() -> None:
    assert unreached("abc", fleet("abc", {"ab", "ac", "bc"})) == ({}, {}, "timed out")


def test_a_test_that_did_not_run_says_nothing_about_the_way() -> None:
    assert unreached("abc", fleet("abc", {"ab", "ac"}, "it died", unmet=False)) == ({}, {}, "")
