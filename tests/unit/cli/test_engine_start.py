"""Options of `run --on`: what does not go together."""

from __future__ import annotations

import pytest

from ddp_play.cli import engine_start
from ddp_play.cli.options import Ansible
from ddp_play.errors import UsageError

NOTHING = Ansible()


@pytest.mark.parametrize(
    ("on", "slurm", "ansible", "more", "message"),
    [
        ("moon", [], NOTHING, {}, "no engine moon"),
        ("ssh", ["partition=gpu"], NOTHING, {}, "--slurm is for --on slurm"),
        ("slurm", [], Ansible(ask_pass=True), {}, "a password cannot be typed"),
        ("slurm", [], Ansible(ask_vault_pass=True), {}, "a password cannot be typed"),
        ("slurm", [], Ansible(limit="n1"), {}, "--limit chooses hosts of an inventory"),
        ("slurm", [], NOTHING, {"dry": True}, "--dry-run asks the hosts"),
        ("slurm", [], NOTHING, {"wait": True}, "slurm has a queue"),
    ],
)
def test_options_that_do_not_go_together(
    on: str, slurm: list[str], ansible: Ansible, more: dict[str, bool], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        engine_start.EngineOptions(on, slurm).check(ansible, **{"dry": False, "wait": False, **more})


@pytest.mark.parametrize(("on", "slurm"), [("ssh", []), ("slurm", ["partition=gpu"])])
def test_options_that_do(on: str, slurm: list[str]) -> None:
    engine_start.EngineOptions(on, slurm).check(NOTHING, dry=False, wait=False)
