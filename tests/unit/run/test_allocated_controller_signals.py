"""What Slurm's signals to a job's script become: a stop of the run with the reason, or another attempt later."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.slurm_commands import Answer
from ddp_play.engines.slurm_states import ENDINGS
from ddp_play.errors import Busy, HostNotReady
from ddp_play.run import allocated_controller
from ddp_play.run.allocated_controller import Signals, end_with
from tests.unit.run import slurm_job
from tests.unit.run.slurm_job import slurm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ddp_play.engines.interface import Ending


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPaths]:
    monkeypatch.setattr(allocated_controller, "TICK_S", 0.01)
    yield from slurm_job.bundle(tmp_path, monkeypatch)


def slurm_says(paths: RunPaths, why: str) -> None:
    """What Slurm's daemon writes to the job's output when it ends it."""
    words = f"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 {why} ***\n"
    (paths.engine / "output.log").write_text(words)


def signalled(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> Ending | None:
    """SIGTERM comes once, while the background process lives: why Slurm sent it."""
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda path: path == paths.background_lock and next(locked))
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    return allocated_controller._wait(paths, signals, "12", slurm)


def test_a_signal_becomes_a_stop_request_with_slurms_reason(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    cause = signalled(paths, monkeypatch)
    assert cause == ENDINGS["CANCELLED"]
    assert read_json(paths.stop_request(now=False)) == {"reason": "Slurm job 12 was cancelled"}


def test_slurms_daemon_may_say_why_after_its_signal(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was requeued ended as cancelled, and no other attempt followed."""
    monkeypatch.setattr(allocated_controller, "CAUSE_S", 60.0)
    threading.Timer(0.5, slurm_says, (paths, "DUE TO JOB REQUEUE")).start()
    began = time.monotonic()
    assert signalled(paths, monkeypatch) == ENDINGS["REQUEUED"]
    assert time.monotonic() - began < 30, "what is said is waited for no longer"


def test_a_person_who_stopped_the_run_has_stopped_it(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(paths.stop_request(now=False), {"reason": "enough"})
    signalled(paths, monkeypatch)
    assert read_json(paths.stop_request(now=False)) == {"reason": "enough"}


@pytest.mark.parametrize(("requeues", "asks"), [(True, {"requeue": "yes"}), (False, {})])
def test_a_requeued_job_leaves_its_run_if_it_may_start_again(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, requeues: bool, asks: dict[str, str]
) -> None:
    write_json(paths.allocation, {"requeues": requeues})
    slurm_says(paths, "DUE TO JOB REQUEUE")
    signalled(paths, monkeypatch)
    assert read_json(paths.stop_request(now=False)) == {"reason": "Slurm job 12 was requeued", **asks}


def test_a_preempted_job_that_its_partition_cancels_is_stopped(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would bring the run back that it left: its files are collected now."""
    write_json(paths.allocation, {"requeues": True})
    write_json(paths.job, {**read_json(paths.job), "restarts": 1})
    slurm_says(paths, "DUE TO PREEMPTION")
    signalled(paths, monkeypatch)
    assert read_json(paths.stop_request(now=False)) == {"reason": "Slurm job 12 was preempted by another job"}


@pytest.mark.parametrize(("what", "asks"), [("DUE TO PREEMPTION", {"requeue": "yes"}), ("", {})])
def test_the_last_attempt_knows_that_it_could_be_no_other(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, what: str, asks: dict[str, str]
) -> None:
    """Its job may not be requeued any more, which the run has seen to."""
    write_json(paths.allocation, {"requeues": True})
    write_json(paths.job, {**read_json(paths.job), "restarts": 1})
    write_json(paths.run, {**read_json(paths.run), "attempts": [{"attempt": 1}]})
    slurm_says(paths, what)
    signalled(paths, monkeypatch)
    order = read_json(paths.stop_request(now=False))
    assert {name: order[name] for name in order if name != "reason"} == asks


def left(paths: RunPaths) -> None:
    write_json(paths.run, {**read_json(paths.run), "requeue": {"reason": "host n2 was lost"}})


class Requeues:
    """Slurm with this job, which requeues it when asked to. `answers`: what it says to that, one after the other."""

    def __init__(self, state: str, *answers: Answer) -> None:
        self.state, self.answers = state, list(answers)
        self.asked = 0

    def __call__(self, *words: str) -> Answer:
        if words == ("scontrol", "show", "job", "12", "--oneliner"):
            return Answer(0, f"JobId=12 JobState={self.state}", "")
        assert words == ("scontrol", "requeue", "12")
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else Answer(0, "", "")
        self.state = self.state if answer.code else "COMPLETING"
        return answer


@pytest.mark.parametrize("warned", [False, True])
def test_slurm_is_asked_to_requeue_a_job_that_still_runs(paths: RunPaths, warned: bool) -> None:
    """With too few nodes, or warned before its preemption: the end of its script would be that of the job."""
    left(paths)
    signals, job = Signals(), Requeues("RUNNING")
    signals.count = int(warned)
    assert allocated_controller._wait_for_requeue(paths, signals, "12", job) == Busy.exit_code
    assert (job.asked, job.state) == (1, "COMPLETING")


@pytest.mark.parametrize("state", ["COMPLETING", "PENDING", "REQUEUED"])
def test_a_job_that_slurm_has_requeued_is_not_asked_for(paths: RunPaths, state: str) -> None:
    left(paths)
    job = Requeues(state)
    assert allocated_controller._wait_for_requeue(paths, Signals(), "12", job) == Busy.exit_code
    assert job.asked == 0


def test_a_controller_of_slurm_that_restarts_is_asked_again(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocated_controller, "ASK_S", 0.01)
    left(paths)
    job = Requeues("RUNNING", Answer(1, "", "Unable to contact slurm controller (connect failure)"))
    assert allocated_controller._wait_for_requeue(paths, Signals(), "12", job) == Busy.exit_code
    assert (job.asked, job.state) == (2, "COMPLETING")


def test_a_requeue_whose_answer_was_lost_is_no_refusal(paths: RunPaths) -> None:
    """Slurm has requeued the job between the two questions, and refuses to do so once more."""
    left(paths)
    job = Requeues("RUNNING")

    def answer(*words: str) -> Answer:
        if words[1] == "requeue":
            job.state = "PENDING"
            return Answer(1, "", "Job is pending execution for job 12")
        return job(*words)

    assert allocated_controller._wait_for_requeue(paths, Signals(), "12", answer) == Busy.exit_code


def test_a_job_that_slurm_does_not_requeue_ends_with_both_reasons(paths: RunPaths) -> None:
    left(paths)
    with pytest.raises(HostNotReady, match="host n2 was lost; Slurm does not requeue job 12: disabled") as error:
        allocated_controller._wait_for_requeue(
            paths, Signals(), "12", lambda *_words: Answer(1, "", "scontrol: error: disabled")
        )
    end_with(paths, error.value)
    assert read_json(paths.run)["exit_code"] == 69
