"""A run whose engine takes its hosts and gives others later: it is left in order, and goes on counting its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.ansible.runner import Passwords
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.engines.route import Route
from ddp_play.guard.protocol import Header
from ddp_play.run import background_process, requeue
from ddp_play.run.supervise_action import _after_earlier_ones
from tests.unit.run.conftest import KILLED, OK, SHARED, Make, Stage, attempts_opened, by_attempt, ends_when_told, state

if TYPE_CHECKING:
    import pytest

PREEMPTED = {"reason": "Slurm job 12 was preempted by another job", "requeue": "yes"}


def allocated(stage: Stage) -> Stage:
    """Its hosts come from an engine that gives others later."""
    stage.paths.engine.mkdir()
    write_json(stage.paths.allocation, {"requeues": True})
    return stage


def taken_away(staged: Make, **values: Any) -> Stage:
    """Two hosts that the engine takes as soon as the ranks run."""
    stage = allocated(staged(2, **values))
    for name in ("h1", "h2"):
        ends_when_told(stage, name)

    def follow(_header: Header, _payload: bytes) -> list[bytes]:
        write_json(stage.paths.stop_request(now=False), PREEMPTED)
        return [state(stage, "h1", state="running")]

    stage.far["h1"].answers["follow"] = follow
    return stage


def test_a_run_whose_hosts_are_taken_is_left_for_its_next_attempt(staged: Make) -> None:
    stage = taken_away(staged)
    write_json(stage.paths.source_archive, {})
    stage.supervisor().run()
    document = stage.document
    assert requeue.reason(stage.paths) == PREEMPTED["reason"]
    (row,) = document["attempts"]
    assert (row["reason"], row["requeued"], row["message"]) == (PREEMPTED["reason"], True, PREEMPTED["reason"])
    assert read_json(stage.paths.attempt(1).outcome)["status"] == "stopped"
    told = [header["run_paths"] for header, _ in stage.far["h1"].orders if header["t"] == "clean"]
    assert told == [[]], "checkpoints in the shared directory stay"
    assert stage.paths.source_archive.exists(), "the next attempt needs it"
    assert not stage.paths.stop_request(now=False).exists()
    event = stage.events("restart")[0]
    assert (event["attempt"], event["hosts"]) == (2, [])


def test_a_run_that_is_left_after_a_take_over_has_no_end_to_tell(staged: Make, told: list[Any]) -> None:
    stage = allocated(staged(2))
    routes = [Route(name, ("ssh", name), "channel").to_json() for name in stage.far]
    write_json(stage.paths.channels, {"routes": routes})
    write_json(stage.paths.run, {**stage.document, "status": "running", "attempt": 1})
    write_json(stage.paths.stop_request(now=False), PREEMPTED)
    for name in ("h1", "h2"):
        stage.ends_on_stop(name)
    assert background_process.take_over(stage.paths, Passwords())
    assert requeue.is_left(stage.paths)
    assert [event for event, _ in told] == ["restart"]


def test_its_next_attempt_has_the_next_number(staged: Make) -> None:
    stage = taken_away(staged)
    stage.supervisor().run()
    for name in ("h1", "h2"):
        by_attempt(stage, name, a2=OK)
    following = stage.supervisor()
    following.assignment = _after_earlier_ones(following.assignment)
    write_json(stage.paths.run, {**stage.document, "requeue": None})
    assert following.run().verdict.exit_code == 0
    assert attempts_opened(stage, "h1") == [1, 2]
    assert [row["attempt"] for row in stage.document["attempts"]] == [1, 2]
    told = [header["run_paths"] for header, _ in stage.far["h1"].orders if header["t"] == "clean"]
    assert told == [[], [SHARED]]
    assert stage.far["h1"].order("prepare")["spec"]["continues"] is True


def test_without_a_restart_left_it_ends(staged: Make) -> None:
    stage = taken_away(staged)
    assignment = stage.supervisor().assignment
    rows = [{"attempt": 0, "hosts": ["h1"], "retired": {}, "fault": ""}]
    write_json(stage.paths.run, {**stage.document, "attempts": rows, "attempt": 0})
    loop = stage.supervisor()
    loop.assignment = _after_earlier_ones(assignment)
    outcome = loop.run()
    assert (outcome.verdict.message, requeue.is_left(stage.paths)) == (PREEMPTED["reason"], False)
    assert stage.document["attempts"][-1]["reason"] == "attempt 2 of 2: ddp_job_restarts is 1"


def test_hosts_that_are_taken_before_the_start_count_as_no_attempt(staged: Make) -> None:
    stage = allocated(staged(2))
    write_json(stage.paths.stop_request(now=False), PREEMPTED)
    stage.supervisor().run()
    assert requeue.is_left(stage.paths)
    assert (stage.document.get("attempts"), stage.document["attempt"]) == (None, 1)
    assert "go" not in stage.far["h1"].kinds()


def test_too_few_hosts_are_a_reason_to_ask_for_others(staged: Make) -> None:
    stage = allocated(staged(2, host_timeout=0.6, hosts=2))
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    stage.supervisor().run()
    assert "host h2 was lost, and too few hosts are left" in requeue.reason(stage.paths)


def taken_during_the_fence(staged: Make, spares: int) -> Stage:
    """Host h2 is lost, and the engine takes all hosts while the loop waits for the lease of h2."""
    stage = allocated(staged(2, spares, host_timeout=0.6, lease=60.0, hosts=2))
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []

    def opened(header: Header, _payload: bytes) -> list[bytes]:
        if not stage.events("waiting"):
            return stage.far["h2"]._healthy("open", header)
        write_json(stage.paths.stop_request(now=False), PREEMPTED)
        return []

    stage.far["h2"].answers["open"] = opened
    return stage


def test_hosts_that_are_taken_during_the_fence_of_a_restart_leave_the_run(staged: Make) -> None:
    """The restart would have had a spare host."""
    stage = taken_during_the_fence(staged, 1)
    stage.supervisor().run()
    assert requeue.reason(stage.paths) == PREEMPTED["reason"]
    (row,) = stage.document["attempts"]
    assert (row["attempt"], row["fault"]) == (1, "h2")
    assert "go" not in stage.far["h3"].kinds()
    assert not stage.paths.stop_request(now=False).exists()


def test_hosts_that_are_taken_during_the_collection_leave_the_run(staged: Make) -> None:
    """After the decision for a restart, before it waits for anything."""
    stage = allocated(staged(2, 1))
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")

    def fetch(header: Header, _payload: bytes) -> list[bytes]:
        write_json(stage.paths.stop_request(now=False), PREEMPTED)
        return stage.far["h1"]._healthy("fetch", header)

    stage.far["h1"].answers["fetch"] = fetch
    stage.supervisor().run()
    assert requeue.reason(stage.paths) == PREEMPTED["reason"]
    assert stage.far["h1"].kinds().count("go") == 1, "no rank of a second attempt was started"


def test_a_job_that_is_requeued_during_the_fence_is_left_once(staged: Make) -> None:
    stage = taken_during_the_fence(staged, 0)
    stage.supervisor().run()
    assert "too few hosts are left" in requeue.reason(stage.paths)
    assert not stage.paths.stop_request(now=False).exists()


def test_a_host_that_slurm_gives_again_is_not_retired_any_more(staged: Make) -> None:
    stage = staged(2)
    rows = [
        {"attempt": 1, "retired": {"h2": "lost"}, "requeued": True},
        {"attempt": 2, "retired": {"h1": "lost"}},
    ]
    write_json(stage.paths.run, {**stage.document, "attempts": rows})
    assert stage.supervisor().history.retired == {"h1": "lost"}


def test_no_attempt_follows_in_an_allocation_that_has_lost_its_controller(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.restart_choice.is_locked", lambda _path: False)
    stage = staged(2)
    stage.paths.engine.mkdir()
    write_json(stage.paths.allocation, {"has_controller": True, "requeues": True})
    by_attempt(stage, "h1", a1={"state": "exited", "ended": 2.0, "exit_code": 137, "signal": 9})
    ends_when_told(stage, "h2")
    assert stage.supervisor().run().verdict.rank == 0
    assert "the allocation ends with it" in stage.document["attempts"][-1]["reason"]
