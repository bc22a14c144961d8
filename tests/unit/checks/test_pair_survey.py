"""The whole measurement in simulated fleets: what is detected, how often, and that clean fleets are left in peace."""

from __future__ import annotations

import math
import random

import pytest

from ddp_play.checks.pair_outcome import Kind
from ddp_play.checks.pair_rounds import first_rounds
from ddp_play.checks.pair_samples import Sample, not_run
from ddp_play.checks.pair_survey import best_first, best_of, pairs_to_repeat, survey

from .simulated_fleet import CASES, Case, Fleet, applies, rates

# Fleets of each size; `python -m benchmarks.network_matrix` simulates more (docs/checks-network.md has its table).
FLEETS = {2: 40, 3: 40, 8: 25, 64: 4, 512: 1}
# Least share of fleets in which the defect is found; 1.0 where nothing else is said.
FOUND = {
    "host sends 20 % slower": 0.9,
    "majority 40 % slower, link speed unknown": 0.5,
    "fabric carries half": 0.8,
}
MOST_WRONG = 0.05  # share of fleets with a defect in which something else is blamed as well


@pytest.mark.parametrize(
    ("case", "num"),
    [(case, num) for num in FLEETS for case in CASES if applies(case, num)],
    ids=lambda part: getattr(part, "name", str(part)),
)
def test_detection_and_false_alarms(case: Case, num: int) -> None:
    found = rates(case, num, range(FLEETS[num]))
    least = FOUND.get(case.name, 0.95 if num == 3 else 1.0)
    assert found.found >= math.ceil(least * found.num), found
    wrong = 0 if case.name == "none" else int(MOST_WRONG * found.num)
    assert found.blamed_wrongly <= wrong, found


def test_no_false_alarm_in_clean_fleets() -> None:
    clean = CASES[0]
    for num, seeds in ((2, range(1000, 1200)), (3, range(1000, 1200)), (8, range(1000, 1100)), (16, range(1000, 1020))):
        assert rates(clean, num, seeds).blamed_wrongly == 0


def test_a_clean_fleet_needs_its_first_pass_and_two_pairs_alone() -> None:
    assert rates(CASES[0], 8, [5]).num_rounds == 7 + 2
    assert rates(CASES[0], 2, [5]).num_rounds == 1


def test_a_disturbance_is_not_there_when_it_is_measured_again() -> None:
    fleet = Fleet(4, 1)
    rounds = []

    def measure(pairs: tuple[tuple[str, str], ...]) -> list[Sample]:
        rounds.append(pairs)
        rows = [row for one, other in pairs for row in (Sample(one, other, 950.0), Sample(other, one, 950.0))]
        return [Sample(row.source, row.target, 300.0) if len(rounds) == 1 else row for row in rows[:1]] + rows[1:]

    done = survey(fleet.ends(), measure)
    assert done.verdicts == ()
    assert [row.kind for row in done.not_repeated] == [Kind.DIRECTION]
    pair = rounds[0][0]
    assert sum(pair in row for row in rounds[3:5]) == 2, "a direction is measured twice more"


def test_a_slow_sender_is_named_also_where_its_retransmits_are_not_seen_again() -> None:
    """Packets out of order: TCP repeats what comes late, or waits for it, from one second to the next."""
    for seed in range(60):
        chance = random.Random(seed)

        def measure(pairs: tuple[tuple[str, str], ...], chance: random.Random = chance) -> list[Sample]:
            ways = [way for one, other in pairs for way in ((one, other), (other, one))]
            return [
                Sample(
                    source, target, chance.uniform(25, 110), segments=6000, retransmits=chance.choice((0, 1, 12, 30))
                )
                if source == "h002"
                else Sample(source, target, chance.uniform(182, 190), segments=16000)
                for source, target in ways
            ]

        blamed = {host for row in survey(Fleet(4, 1).ends(), measure, seed=seed).verdicts for host in row.hosts}
        assert "h002" in blamed, seed


def test_a_host_that_dies_is_not_taken_back_and_blames_nobody() -> None:
    def measure(pairs: tuple[tuple[str, str], ...]) -> list[Sample]:
        rows: list[Sample] = []
        for one, other in pairs:
            dead = "h002" in (one, other)
            rows += not_run(one, other, "h002: died") if dead else (Sample(one, other, 9.0), Sample(other, one, 9.0))
        return rows

    done = survey(Fleet(4, 1).ends(), measure)
    assert done.verdicts == ()
    assert sum(row.mbps is None for row in done.samples) == 6


def test_the_best_of_several_measurements_counts() -> None:
    one = Sample("a", "b", 900.0, segments=1000, retransmits=9, rtt_ms=0.2, checksum_errors=1, out_of_order=100)
    other = Sample("a", "b", 800.0, segments=2000, retransmits=0, rtt_ms=0.1, out_of_order=300)
    (found,) = best_of([one, other])
    assert (found.mbps, found.loss, found.rtt_ms, found.checksum_errors) == (900.0, 0.0, 0.1, 0)
    assert found.disorder == 0.1
    dead = Sample("a", "b", problem="died")
    assert best_of([dead, one]) == best_of([one, dead]) == [one]


def test_suspects_meet_the_best_of_the_others() -> None:
    fleet = Fleet(8, 2, sends={"h003": 0.5}, receives={"h003": 0.5})
    samples = [row for pairs in first_rounds(fleet.hosts) for row in fleet.measure(pairs)]
    assert best_first(fleet.ends(), samples)[-1] == "h003"
    done = fleet.survey()
    again = {row.pair for row in done.repeats}
    assert len(again) == 3
    assert all("h003" in pair for pair in again)
    assert pairs_to_repeat([], fleet.ends(), samples) == []
