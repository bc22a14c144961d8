"""What follows an attempt, from the bundle: how often the job starts again, and with which hosts."""

from __future__ import annotations

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.run.attempt_history import AttemptHistory
from ddp_play.run.restart_choice import replan_input, restart_policy
from ddp_play.run.restart_decision import Policy
from tests.unit.run.conftest import Make


def test_the_policy_is_that_of_the_job(staged: Make) -> None:
    stage = staged(2, restarts=3, restart_exit_codes=[75])
    assert restart_policy(stage.paths) == Policy(3, (75,))
    write_json(stage.paths.job, {})
    assert restart_policy(stage.paths) == Policy(0)


def test_the_next_plan_knows_the_hosts_that_refused_and_those_of_the_first_attempt(staged: Make) -> None:
    stage = staged(2, 1)
    rows = [{"attempt": 1, "hosts": ["h1", "h2"], "retired": {"h1": "lost"}}]
    write_json(stage.paths.run, {**stage.document, "attempts": rows})
    history = AttemptHistory(Bundle(stage.paths))
    known = replan_input(stage.supervisor().assignment, history, {"h2": "busy"})
    assert (known.retired, known.wanted) == ({"h1": "lost", "h2": "busy"}, 2)
    assert known.fleet is not None
    stage.paths.fleet.unlink()
    assert replan_input(stage.supervisor().assignment, history, {}).fleet is None
