"""The controller inside a Slurm job, over commands that answer as Slurm does. Whole ones: tests/slurm."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.slurm_commands import Answer
from ddp_play.engines.slurm_states import ENDINGS
from ddp_play.errors import Busy, HostNotReady, InternalError
from ddp_play.run import allocated_controller, next_allocation
from ddp_play.run.allocated_controller import Signals, control, end_with
from ddp_play.run.allocated_nodes import inventory
from tests.unit.build import hosts, plan, shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUEST = {"cwd": "/", "playbook": "/dev/null", "inventory": ["/dev"], "options": ["--extra-vars", "a=1"]}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPaths]:
    for name, value in (("SLURM_JOB_ID", "12"), ("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_MEM_PER_CPU", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DDP_PLAY_ENGINE", "")
    monkeypatch.setenv("DDP_PLAY_REPORT", "no")
    monkeypatch.setattr(allocated_controller, "CAUSE_S", 0.0)
    made = RunPaths(tmp_path / "calm-otter")
    made.create()
    made.engine.mkdir()
    write_json(made.run, {"id": "calm-otter", "status": "waiting", "request": REQUEST})
    before = signal.getsignal(signal.SIGTERM)
    yield made
    signal.signal(signal.SIGTERM, before)


def slurm(*words: str) -> Answer:
    said = {
        "hostnames": "n1\nn2\n",
        "config": "TaskPlugin              = task/affinity,task/cgroup\n",
        "job": "JobState=COMPLETING Requeue=1 Partition=low",
        "partition": "PartitionName=low PreemptMode=CANCEL",
    }
    return Answer(0, said[words[2]], "")


def ends(monkeypatch: pytest.MonkeyPatch, **document: Any) -> None:
    """The background process writes this and ends at once."""

    def start(paths: RunPaths, *, take_over: bool = False) -> None:
        write_json(paths.run, {**read_json(paths.run), **document})

    monkeypatch.setattr(allocated_controller, "_start", start)


def test_the_nodes_become_an_inventory_after_the_users_own(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, status="failed", exit_code=9)
    assert control(paths, slurm) == 9
    request = read_json(paths.run)["request"]
    assert request["inventory"] == ["/dev", str(paths.engine / "hosts.yml")]
    assert request["options"][-2:] == ["--limit", "n1,n2"]
    assert read_json(paths.engine / "hosts.yml") == inventory(["n1", "n2"], "12", binding=True)
    assert "SLURM_MEM_PER_CPU" not in os.environ, "a step would refuse it beside --mem"
    assert os.environ["DDP_PLAY_ENGINE"] == "slurm"


def test_a_run_without_an_end_is_an_internal_error(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, status="running")
    with pytest.raises(InternalError, match="the background process ended before the run did") as error:
        control(paths, slurm)
    end_with(paths, error.value)
    document = read_json(paths.run)
    assert (document["status"], document["exit_code"], document["finished"]) == ("failed", 70, True)


@pytest.mark.parametrize("ended", [False, True])
def test_an_error_of_the_controller_is_told_once(paths: RunPaths, told: list[Any], ended: bool) -> None:
    if ended:
        write_json(paths.run, {**read_json(paths.run), "status": "failed", "exit_code": 9})
    end_with(paths, HostNotReady("n1 lacks train.yml"))
    assert told == ([] if ended else [("end", {})])


def test_a_run_that_ends_before_its_supervisor_starts_has_a_page(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controller was lost and there is no restart left: this start only writes down the end."""
    monkeypatch.delenv("DDP_PLAY_REPORT")

    def begin(paths: RunPaths, _cause: Any, _words: str) -> bool:
        write_json(paths.run, {**read_json(paths.run), "status": "failed", "exit_code": 69})
        return False

    monkeypatch.setattr(next_allocation, "begin", begin)
    assert control(paths, slurm) == 69
    assert paths.report.exists()


@pytest.mark.parametrize("attempt", [1, 2])
def test_what_attempts_share_is_named_if_the_next_start_fails_before_its_supervisor(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, attempt: int
) -> None:
    """A supervisor, which gives its attempt a number, sees to that itself."""
    put = paths.attempt(1)
    put.root.mkdir(parents=True)
    write_json(put.plan, plan(*hosts(1, shared=shared())).to_json())
    rows = [{"attempt": 1, "hosts": ["h1"], "retired": {}, "requeued": True}]
    write_json(paths.run, {**read_json(paths.run), "attempt": 1, "attempts": rows, "requeue": {"reason": "x"}})
    ends(monkeypatch, status="failed", exit_code=64, attempt=attempt)
    assert control(paths, slurm) == 64
    named = [row for rows in (read_json(paths.run).get("left_behind") or {}).values() for row in rows]
    assert bool(named) is (attempt == 1)


def test_a_killed_background_process_is_replaced_while_ranks_may_run(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `attach` does over SSH; the third one ends."""
    takes_over: list[bool] = []

    def start(paths: RunPaths, *, take_over: bool = False) -> None:
        takes_over.append(take_over)
        fields = {"status": "failed", "exit_code": 9} if len(takes_over) == 3 else {"status": "running"}
        write_json(paths.run, {**read_json(paths.run), "directories": {"n1": "/x"}, **fields})

    monkeypatch.setattr(allocated_controller, "_start", start)
    assert control(paths, slurm) == 9
    assert takes_over == [False, True, True]


def test_a_signal_becomes_a_stop_request_with_slurms_reason(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda path: path == paths.background_lock and next(locked))
    monkeypatch.setattr(allocated_controller, "TICK_S", 0.01)
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    cause = allocated_controller._wait(paths, signals, "12", slurm)
    assert cause == ENDINGS["CANCELLED"]
    assert read_json(paths.stop_request(now=False)) == {"reason": "Slurm job 12 was cancelled"}


@pytest.mark.parametrize(
    ("word", "status", "code", "wanted"),
    [
        ("TIMEOUT", "stopped", 130, ("failed", 124, "Slurm job 12 reached Slurm's time limit")),
        ("CANCELLED", "stopped", 130, ("stopped", 130, "Slurm job 12 was cancelled")),
        ("CANCELLED", "failed", 143, ("stopped", 130, "Slurm job 12 was cancelled")),
        ("TIMEOUT", "failed", 9, ("failed", 9, "rank 2 failed")),  # it failed before the signal
        ("TIMEOUT", "succeeded", 0, ("succeeded", 0, "rank 2 failed")),
    ],
)
def test_the_verdict_names_what_slurm_did(
    paths: RunPaths, word: str, status: str, code: int, wanted: tuple[str, int, str]
) -> None:
    verdict = {"message": "rank 2 failed", "exit_code": code}
    write_json(paths.run, {"status": status, "exit_code": code, "verdict": verdict})
    allocated_controller._name_the_cause(paths, ENDINGS[word], "12")
    document = read_json(paths.run)
    assert (document["status"], document["exit_code"], document["verdict"]["message"]) == wanted


def test_a_run_that_ended_before_its_job_started_is_left_as_it_is(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(monkeypatch, status="succeeded", exit_code=0)
    ended = {**read_json(paths.run), "status": "stopped", "exit_code": 130}
    write_json(paths.run, ended)
    assert control(paths, slurm) == 130
    assert read_json(paths.run) == ended


@pytest.mark.parametrize("lacking", [{"cwd": "/no/home"}, {"playbook": "train.yml"}, {"inventory": ["n1,", "inv"]}])
def test_what_this_node_lacks_is_named_before_the_start(paths: RunPaths, lacking: dict[str, Any]) -> None:
    write_json(paths.run, {**read_json(paths.run), "request": {**REQUEST, **lacking}})
    with pytest.raises(HostNotReady, match=r"lacks (/no/home|train.yml|inv)") as refused:
        control(paths, slurm)
    assert "on the shared directory" in refused.value.hint


def test_a_person_who_stopped_the_run_has_stopped_it(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(paths.stop_request(now=False), {"reason": "enough"})
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda path: path == paths.background_lock and next(locked))
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    allocated_controller._wait(paths, signals, "12", slurm)
    assert read_json(paths.stop_request(now=False)) == {"reason": "enough"}


@pytest.mark.parametrize(("requeues", "asks"), [(True, {"requeue": "yes"}), (False, {})])
def test_a_requeued_job_leaves_its_run_if_it_may_start_again(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, requeues: bool, asks: dict[str, str]
) -> None:
    write_json(paths.allocation, {"requeues": requeues})
    words = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***\n"
    (paths.engine / "output.log").write_text(words)
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda path: path == paths.background_lock and next(locked))
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    allocated_controller._wait(paths, signals, "12", slurm)
    assert read_json(paths.stop_request(now=False)) == {"reason": "Slurm job 12 was requeued", **asks}


def test_a_preempted_job_that_its_partition_cancels_is_stopped(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would bring the run back that it left: its files are collected now."""
    write_json(paths.allocation, {"requeues": True})
    write_json(paths.job, {**read_json(paths.job), "restarts": 1})
    words = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n"
    (paths.engine / "output.log").write_text(words)
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda path: path == paths.background_lock and next(locked))
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    allocated_controller._wait(paths, signals, "12", slurm)
    assert read_json(paths.stop_request(now=False)) == {"reason": "Slurm job 12 was preempted by another job"}


@pytest.mark.parametrize(("what", "asks"), [("DUE TO PREEMPTION", {"requeue": "yes"}), ("", {})])
def test_the_last_attempt_knows_that_it_could_be_no_other(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, what: str, asks: dict[str, str]
) -> None:
    """Its job may not be requeued any more, which the run has seen to."""
    write_json(paths.allocation, {"requeues": True})
    write_json(paths.job, {**read_json(paths.job), "restarts": 1})
    write_json(paths.run, {**read_json(paths.run), "attempts": [{"attempt": 1}]})
    words = f"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 {what} ***\n"
    (paths.engine / "output.log").write_text(words)
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda path: path == paths.background_lock and next(locked))
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    allocated_controller._wait(paths, signals, "12", slurm)
    order = read_json(paths.stop_request(now=False))
    assert {name: order[name] for name in order if name != "reason"} == asks


def left(paths: RunPaths, *, asked: bool) -> None:
    write_json(paths.run, {**read_json(paths.run), "requeue": {"reason": "host n2 was lost", "asked": asked}})


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


@pytest.mark.parametrize("asked", [True, False])
def test_slurm_is_asked_to_requeue_a_job_that_still_runs(paths: RunPaths, asked: bool) -> None:
    """With too few nodes, or warned before its preemption: the end of its script would be that of the job."""
    left(paths, asked=asked)
    signals, job = Signals(), Requeues("RUNNING")
    signals.count = 0 if asked else 1
    assert allocated_controller._wait_for_requeue(paths, signals, "12", job) == Busy.exit_code
    assert (job.asked, job.state) == (1, "COMPLETING")


@pytest.mark.parametrize("state", ["COMPLETING", "PENDING", "REQUEUED"])
def test_a_job_that_slurm_has_requeued_is_not_asked_for(paths: RunPaths, state: str) -> None:
    left(paths, asked=True)
    job = Requeues(state)
    assert allocated_controller._wait_for_requeue(paths, Signals(), "12", job) == Busy.exit_code
    assert job.asked == 0


def test_a_controller_of_slurm_that_restarts_is_asked_again(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocated_controller, "ASK_S", 0.01)
    left(paths, asked=True)
    job = Requeues("RUNNING", Answer(1, "", "Unable to contact slurm controller (connect failure)"))
    assert allocated_controller._wait_for_requeue(paths, Signals(), "12", job) == Busy.exit_code
    assert (job.asked, job.state) == (2, "COMPLETING")


def test_a_requeue_whose_answer_was_lost_is_no_refusal(paths: RunPaths) -> None:
    """Slurm has requeued the job between the two questions, and refuses to do so once more."""
    left(paths, asked=True)
    job = Requeues("RUNNING")

    def answer(*words: str) -> Answer:
        if words[1] == "requeue":
            job.state = "PENDING"
            return Answer(1, "", "Job is pending execution for job 12")
        return job(*words)

    assert allocated_controller._wait_for_requeue(paths, Signals(), "12", answer) == Busy.exit_code


def test_a_job_that_slurm_does_not_requeue_ends_with_both_reasons(paths: RunPaths) -> None:
    left(paths, asked=True)
    with pytest.raises(HostNotReady, match="host n2 was lost; Slurm does not requeue job 12: disabled") as error:
        allocated_controller._wait_for_requeue(
            paths, Signals(), "12", lambda *_words: Answer(1, "", "scontrol: error: disabled")
        )
    end_with(paths, error.value)
    assert read_json(paths.run)["exit_code"] == 69


def test_the_next_start_uses_its_own_nodes_and_the_spares_of_the_first(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(paths.job, {"slurm": {"spares": 1}})
    ends(monkeypatch, status="waiting", requeue={"reason": "was requeued", "asked": False}, attempt=1)
    monkeypatch.setattr(allocated_controller, "REQUEUED_S", 0.0)
    assert control(paths, slurm) == Busy.exit_code
    write_json(paths.job, {})
    ends(monkeypatch, status="failed", exit_code=9)
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert control(paths, slurm) == 9
    request = read_json(paths.run)["request"]
    assert request["inventory"] == ["/dev", str(paths.engine / "hosts.yml")]
    assert request["options"] == [*REQUEST["options"], "--limit", "n1,n2"]
    assert list(read_json(paths.engine / "hosts.yml")["spares"]["hosts"]) == ["n2"]
    assert "requeue" not in read_json(paths.run)
