"""What a check asks, as text for the process that asks the hosts."""

from __future__ import annotations

import pytest

from ddp_play.checks.check_scope import CheckScope, scope_from_text
from ddp_play.checks.time_budget import TimeBudget


@pytest.mark.parametrize(
    ("scope", "has_matrix"),
    [
        (CheckScope(), False),
        (CheckScope("burn-in"), True),
        (
            CheckScope(
                "full", TimeBudget(30.0, 99.123456789), record=True, outputs=True, plan="x/plan.json", progress="x"
            ),
            True,
        ),
    ],
)
def test_another_process_has_the_same_scope(scope: CheckScope, has_matrix: bool) -> None:
    assert scope_from_text(scope.to_text()) == scope
    assert scope.has_matrix is has_matrix


def test_a_later_end_changes_nothing_else() -> None:
    scope = CheckScope("full", TimeBudget(30.0, 100.0), record=True)
    assert scope.later(5.0) == CheckScope("full", TimeBudget(30.0, 105.0), record=True)
