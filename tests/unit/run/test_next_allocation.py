"""The next start of a requeued job: what has to be over before it, and what it finds in the bundle."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.outcome import Verdict
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.interface import Ending
from ddp_play.errors import Busy, Interrupted
from ddp_play.run import interrupted_attempt, next_allocation

if TYPE_CHECKING:
    from pathlib import Path

CAUSE = Ending("host_lost", 69, "lost its controller on n1")
WORDS = "Slurm job 12 lost its controller on n1"
LEFT = {"reason": "was preempted"}


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "calm-otter")
    made.create()
    made.engine.mkdir()
    write_json(made.run, {"id": "calm-otter", "status": "waiting"})
    return made


def test_the_first_start_changes_nothing_but_the_status(paths: RunPaths) -> None:
    assert next_allocation.begin(paths, CAUSE, WORDS)
    assert read_json(paths.run) == {"id": "calm-otter", "status": "starting"}


def test_a_run_that_was_left_goes_on_with_a_plan_of_its_own(paths: RunPaths) -> None:
    write_json(paths.run, {**read_json(paths.run), "attempt": 1, "requeue": LEFT})
    write_json(paths.plan, {"first": 1})
    (paths.ansible / "artifacts").mkdir(parents=True)
    write_json(paths.stop_request(now=False), {"reason": "was preempted", "requeue": "yes"})
    assert next_allocation.begin(paths, CAUSE, WORDS)
    document = read_json(paths.run)
    assert (document["status"], document["attempt"], "requeue" in document) == ("starting", 1, False)
    assert not paths.plan.exists(), "a plan here would be taken for that of another job of the playbook"
    assert read_json(paths.attempt(1).plan) == {"first": 1}
    assert (paths.attempt(1).root / "ansible" / "artifacts").is_dir()
    assert not paths.stop_request(now=False).exists()


def test_a_start_that_was_cut_off_is_repeated(paths: RunPaths) -> None:
    for _ in range(2):
        write_json(paths.run, {**read_json(paths.run), "attempt": 1, "requeue": LEFT})
        paths.ansible.mkdir()
        assert next_allocation.begin(paths, CAUSE, WORDS)
    assert len(list(paths.attempt(1).root.glob("ansible*"))) == 2


def test_a_start_that_was_lost_before_its_plan_costs_no_restart(paths: RunPaths) -> None:
    """Its node was lost while the tasks before the job ran: no host knows of it."""
    write_json(paths.run, {**read_json(paths.run), "attempt": 1, "requeue": LEFT})
    write_json(paths.plan, {"first": 1})
    assert next_allocation.begin(paths, CAUSE, WORDS)
    assert next_allocation.begin(paths, CAUSE, WORDS)
    document = read_json(paths.run)
    assert (document["status"], document["attempt"], document.get("attempts")) == ("starting", 1, None)
    assert read_json(paths.attempt(1).plan) == {"first": 1}


def test_the_plan_of_an_ended_attempt_stays_if_a_later_start_had_none(paths: RunPaths) -> None:
    write_json(paths.run, {**read_json(paths.run), "attempt": 1, "requeue": LEFT})
    for start in ("first", "second"):
        write_json(paths.plan, {start: 1})
        assert next_allocation.begin(paths, CAUSE, WORDS)
    assert read_json(paths.attempt(1).plan) == {"first": 1}
    assert not paths.plan.exists()


def test_a_run_that_has_ended_does_not_start(paths: RunPaths) -> None:
    write_json(paths.run, {"status": "stopped", "attempt": 1})
    assert not next_allocation.begin(paths, CAUSE, WORDS)
    assert read_json(paths.run)["status"] == "stopped"


def test_a_person_who_stopped_the_run_meanwhile_has_stopped_it(paths: RunPaths) -> None:
    write_json(paths.run, {**read_json(paths.run), "attempt": 1, "requeue": LEFT})
    write_json(paths.stop_request(now=False), {"reason": "enough"})
    with pytest.raises(Interrupted, match="while the run waited for its next attempt"):
        next_allocation.begin(paths, CAUSE, WORDS)


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_attempt_without_its_controller_is_concluded_first(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    write_json(paths.run, {**read_json(paths.run), "status": "running", "attempt": 1})
    concluded: list[Verdict] = []

    def conclude(_paths: RunPaths, cause: Verdict) -> bool:
        concluded.append(cause)
        return goes_on

    monkeypatch.setattr(interrupted_attempt, "conclude", conclude)
    assert next_allocation.begin(paths, CAUSE, WORDS) is goes_on
    assert concluded == [Verdict("host_lost", WORDS, 69)]


@pytest.mark.parametrize("name", ["background_lock", "lock"])
def test_nothing_begins_while_a_process_of_before_may_write(paths: RunPaths, name: str) -> None:
    with getattr(paths, name).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="still supervised by a process of an earlier start"):
            next_allocation.wait_for_locks(paths, timeout_s=0.0)
    next_allocation.wait_for_locks(paths, timeout_s=0.0)


def test_two_controllers_of_one_run_exclude_each_other(paths: RunPaths) -> None:
    with paths.engine_lock.open("a") as held, paths.engine_lock.open("a") as other:
        next_allocation.lock_engine(held, paths, timeout_s=0.0)
        with pytest.raises(Busy):
            next_allocation.lock_engine(other, paths, timeout_s=0.0)
