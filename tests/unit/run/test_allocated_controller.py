"""The controller inside a Slurm job, from its start to its end, over commands that answer as Slurm does.

What Slurm's signals become: test_allocated_controller_signals.py. Whole ones: tests/slurm.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.slurm_states import ENDINGS
from ddp_play.errors import Busy, HostNotReady, InternalError
from ddp_play.run import allocated_controller, next_allocation
from ddp_play.run.allocated_controller import control, end_with
from ddp_play.run.allocated_nodes import inventory
from tests.unit.build import hosts, plan, shared
from tests.unit.run import slurm_job
from tests.unit.run.slurm_job import REQUEST, ends, slurm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPaths]:
    yield from slurm_job.bundle(tmp_path, monkeypatch)


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
    monkeypatch.setattr(allocated_controller, "REPORT_S", 120.0)  # of a machine whose other tests take its cores

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


def test_the_next_start_uses_its_own_nodes_and_the_spares_of_the_first(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(paths.job, {"slurm": {"spares": 1}})
    ends(monkeypatch, status="waiting", requeue={"reason": "was requeued"}, attempt=1)
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
