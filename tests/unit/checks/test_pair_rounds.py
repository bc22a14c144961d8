"""Rounds of pairs: every pair once, no host twice in a round, and the screening of large fleets."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from ddp_play.checks.pair_rounds import buddy_pairs, disjoint_rounds, first_rounds, screening


def names(number: int) -> list[str]:
    return [f"h{at:03}" for at in range(1, number + 1)]


@pytest.mark.parametrize("number", range(17))
def test_every_pair_once_in_as_few_rounds_as_there_can_be(number: int) -> None:
    rounds = first_rounds(names(number))
    assert sorted(pair for pairs in rounds for pair in pairs) == list(combinations(names(number), 2))
    assert len(rounds) == (0 if number < 2 else number - (number % 2 == 0))
    assert all(len({host for pair in pairs for host in pair}) == 2 * len(pairs) for pairs in rounds)


@pytest.mark.parametrize("number", [17, 18, 64, 511, 512])
def test_a_large_fleet_is_screened_by_three_matchings(number: int) -> None:
    rounds = first_rounds(names(number), seed=3)
    pairs = [pair for row in rounds for pair in row]
    assert len(rounds) == 3
    assert len(set(pairs)) == len(pairs)
    met = Counter(host for pair in pairs for host in pair)
    assert set(met) == set(names(number))
    assert min(met.values()) == (2 if number % 2 else 3)  # of an odd number one rests in each round, never the same
    assert first_rounds(names(number), seed=3) == rounds
    assert first_rounds(names(number), seed=4) != rounds


def test_the_same_pair_twice_is_in_two_rounds() -> None:
    assert disjoint_rounds([("a", "b"), ("c", "d"), ("a", "b")]) == [(("a", "b"), ("c", "d")), (("a", "b"),)]
    assert disjoint_rounds([]) == []


def test_suspects_meet_other_buddies_in_turn() -> None:
    assert buddy_pairs(["x", "y"], ["a", "b", "c"], num_buddies=2) == [("a", "x"), ("b", "x"), ("c", "y"), ("a", "y")]
    # those that it has met already come last
    assert buddy_pairs(["x"], ["a", "b", "c"], num_buddies=2, avoid={("a", "x")}) == [("b", "x"), ("c", "x")]
    assert buddy_pairs(["x"], ["a"], avoid={("a", "x")}) == [("a", "x")]
    assert buddy_pairs(["x"], []) == []


def test_screening_of_few_hosts_has_no_round_twice() -> None:
    assert len(screening(["a", "b"])) == 1
    assert screening([]) == []
