"""The nodes of a Slurm job: their names, their inventory, and whether Slurm binds tasks there."""

from __future__ import annotations

import os

import pytest

from ddp_play.engines.slurm_commands import Answer
from ddp_play.errors import HostNotReady
from ddp_play.run import allocated_nodes
from ddp_play.run.allocated_nodes import inventory, job_hosts

NODES = "SLURM_JOB_NODELIST"


def test_the_last_nodes_are_the_spare_ones() -> None:
    made = inventory(["n1", "n2", "n3"], "12", binding=False, num_spares=1)
    assert (list(made["ranks"]["hosts"]), list(made["spares"]["hosts"])) == (["n1", "n2", "n3"], ["n3"])


def test_nodes_that_slurm_does_not_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODES, "n[1-2]")
    with pytest.raises(HostNotReady, match="does not name the nodes of this job: bad list"):
        job_hosts(lambda *_words: Answer(1, "", "scontrol: error: bad list"))


def test_nodes_are_those_that_slurm_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODES, "n[1-2]")
    assert job_hosts(lambda *words: Answer(0, f"{words[3]}a\n{words[3]}b\n", "")) == ["n[1-2]a", "n[1-2]b"]


def test_slurm_is_asked_for_its_configuration_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    said = "TaskPlugin              = task/affinity,task/cgroup\n"
    answers = iter([Answer(1, "", "Unable to contact slurm controller"), Answer(0, said, "")])
    assert allocated_nodes.binds_tasks(lambda *_words: next(answers))


def test_what_steps_refuse_is_not_in_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SLURM_JOB_ID", "12"), ("SLURM_MEM_PER_CPU", "1"), ("DDP_PLAY_ENGINE", "")):
        monkeypatch.setenv(name, value)
    assert allocated_nodes.use_engine() == "12"
    assert ("SLURM_MEM_PER_CPU" in os.environ, os.environ["DDP_PLAY_ENGINE"]) == (False, "slurm")
