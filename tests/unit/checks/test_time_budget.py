"""The time of a check: what is left, what each part gets, and durations that cannot be meant."""

from __future__ import annotations

import math
import time

import pytest

from ddp_play.checks.time_budget import NO_LIMIT, TimeBudget, budget_of, from_text, process_age_s
from ddp_play.errors import UsageError


def test_without_a_limit_everything_keeps_its_own() -> None:
    assert budget_of(None) is NO_LIMIT
    assert (NO_LIMIT.capped(20.0), NO_LIMIT.login_s(150.0), NO_LIMIT.left_s()) == (20.0, 150.0, math.inf)
    assert (NO_LIMIT.part_s(30.0), NO_LIMIT.part_s()) == (30.0, math.inf)
    assert from_text(NO_LIMIT.to_text()) is NO_LIMIT


def test_what_is_left_has_the_end_taken_off() -> None:
    budget = TimeBudget(100.0, time.monotonic() + 60)
    assert 54 < budget.left_s() <= 55
    assert budget.capped(20.0) == 20.0
    assert 27 < budget.login_s(150.0) <= 27.5
    assert 27 < budget.part_s(60.0) <= 27.5
    assert budget.part_s(8.0) == 8.0
    assert TimeBudget(10.0, time.monotonic() + 6).part_s(60.0) == 4.0, "half of a short time would cut readings"
    assert TimeBudget(10.0, time.monotonic() + 3).part_s(60.0) <= 2.0
    over = TimeBudget(30.0, time.monotonic() - 1)
    assert (over.left_s(), over.capped(20.0)) == (0.0, 0.0)
    assert over.reason == "no time left of --within 30s"


def test_time_in_which_a_password_was_typed_does_not_count() -> None:
    assert TimeBudget(30.0, 100.0).later(7.5) == TimeBudget(30.0, 107.5)
    assert not NO_LIMIT.later(7.5).is_limited


def test_another_process_has_the_same_end() -> None:
    budget = TimeBudget(30.0, 12345.678901234567)
    assert from_text(budget.to_text()) == budget


def test_the_time_counts_from_the_start_of_the_process() -> None:
    budget = budget_of("2m")
    age_s = process_age_s()
    assert age_s > 0
    assert budget.until == pytest.approx(time.monotonic() + 120 - age_s, abs=1.0)
    assert process_age_s("/nowhere") == 0.0


@pytest.mark.parametrize(
    ("text", "says"), [("soon", "not a duration"), ("4s", "cannot be kept"), ("2d", "more than a day")]
)
def test_durations_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        budget_of(text)
