"""`check`, `collectives` and `bench` on nodes that Slurm gives: the output and the exit codes are those of the verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.slurm.conftest import LONG, PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.conftest import Login

TWO = ("--on", "slurm", "-e", "ddp_job_hosts=2")


def hosts_of(login: Login) -> Path:
    """The inventory with the variables of the nodes."""
    return next(word for word in login.job("exit 0") if str(word).endswith("hosts.yml"))  # type: ignore[return-value]


def test_a_check_of_two_nodes_has_the_form_of_one_over_ssh(login: Login) -> None:
    done = login.play("check", "-i", hosts_of(login), *TWO, "--json", timeout_s=120)
    document = done.json
    assert (document["hosts"], document["level"]) == (["n1", "n2"], "quick"), done.err
    assert done.code == {"ok": 0, "check_failed": 1, "host_not_ready": 69}[document["exit_class"]], document[
        "exit_class"
    ]
    assert "slurm job" in done.err
    login.cluster.wait_empty(PATIENCE_S)


def test_a_verb_that_fails_has_its_own_exit_code(login: Login) -> None:
    done = login.play("bench", "-i", hosts_of(login), *TWO, "-e", "ddp_job_gpus=none", "--backend", "moon")
    assert (done.code, "no backend 'moon'" in done.err) == (64, True), done.err


def test_what_slurm_cannot_give_is_refused(login: Login) -> None:
    done = login.play("check", *TWO, "--slurm", "partition=nope")
    assert (done.code, "this cluster has no partition nope" in done.err) == (64, True), done.err


@LONG
def test_collectives_run_on_two_nodes(login: Login) -> None:
    pytest.importorskip("torch")
    options = ("-e", "ddp_job_gpus=none", "-e", "ddp_job_ranks_per_host=1", "--backend", "gloo", "--json")
    done = login.play("collectives", "-i", hosts_of(login), *TWO, *options, timeout_s=180)
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    assert (run["backend"], run["exit_code"], run["result"]["world_size"]) == ("gloo", 0, 2)
