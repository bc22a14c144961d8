"""The controller inside a Slurm job, over commands that answer as Slurm does. Whole ones: tests/slurm."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.slurm_commands import Answer
from ddp_play.engines.slurm_states import ENDINGS
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.run import allocated_controller
from ddp_play.run.allocated_controller import Signals, control, inventory, job_hosts

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
        "job": "JobState=COMPLETING",
    }
    return Answer(0, said[words[2]], "")


def ends(monkeypatch: pytest.MonkeyPatch, **document: Any) -> None:
    """The background process writes this and ends at once."""

    def start(paths: RunPaths) -> None:
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


def test_the_last_nodes_are_the_spare_ones() -> None:
    made = inventory(["n1", "n2", "n3"], "12", binding=False, num_spares=1)
    assert (list(made["ranks"]["hosts"]), list(made["spares"]["hosts"])) == (["n1", "n2", "n3"], ["n3"])


def test_a_run_without_an_end_is_an_internal_error(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, status="running")
    assert control(paths, slurm) == 70


def test_nodes_that_slurm_does_not_name_are_an_error(paths: RunPaths) -> None:
    assert paths.engine.is_dir()
    with pytest.raises(HostNotReady, match="does not name the nodes of this job: bad list"):
        job_hosts(lambda *_words: Answer(1, "", "scontrol: error: bad list"))


def test_a_signal_becomes_a_stop_request_with_slurms_reason(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = iter([True, True, False])
    monkeypatch.setattr(allocated_controller, "is_locked", lambda _path: next(locked))
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


def test_a_requeued_job_does_not_start_its_run_again(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, status="succeeded", exit_code=0)
    write_json(paths.run, {**read_json(paths.run), "status": "running"})
    with pytest.raises(UsageError, match="the run is running already"):
        control(paths, slurm)
    assert read_json(paths.run)["request"] == REQUEST


def test_slurm_is_asked_for_its_configuration_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    answers = iter([Answer(1, "", "Unable to contact slurm controller"), slurm("scontrol", "show", "config")])
    assert allocated_controller._binds_tasks(lambda *_words: next(answers))
