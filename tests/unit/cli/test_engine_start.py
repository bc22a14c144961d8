"""Options of `run --on`: what does not go together, and the settings of the command line over those of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.plugin_variables import RUN_DIR_ENV
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.cli import engine_start
from ddp_play.cli.options import Ansible
from ddp_play.engines import registry
from ddp_play.errors import UsageError
from ddp_play.testing import FakeEngine, FakePlaybookRunner
from tests.unit.build import job

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


def test_the_command_lines_settings_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(request: Any) -> None:
        found = job(hosts=2, slurm={"partition": "cpu", "account": "lab"})
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).job, found.model_dump(mode="json"))

    engine = FakeEngine()
    monkeypatch.setitem(registry.ENGINES, "fake", engine)
    monkeypatch.setattr(engine_start, "AnsibleRunner", lambda: FakePlaybookRunner(work=work))
    playbook = tmp_path / "train.yml"
    playbook.touch()
    engine_options = engine_start.EngineOptions("fake", ["partition=gpu"])
    paths = engine_options.submit(str(playbook), None, NOTHING, name="night-1", output=None)
    assert (paths.run_id, read_json(paths.run)["status"]) == ("night-1", "waiting")
    settings = engine.wanted[0].job.slurm
    assert (settings.partition, settings.account) == ("gpu", "lab")


def test_a_bad_setting_of_the_command_line_is_refused_before_there_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(request: Any) -> None:
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).job, job(hosts=2).model_dump(mode="json"))

    monkeypatch.setattr(engine_start, "AnsibleRunner", lambda: FakePlaybookRunner(work=work))
    playbook = tmp_path / "train.yml"
    playbook.touch()
    engine_options = engine_start.EngineOptions("slurm", ["time=soon"])
    with pytest.raises(UsageError, match="--slurm time"):
        engine_options.submit(str(playbook), None, NOTHING, name="night-1", output=None)
    assert not RunPaths.of("night-1").root.exists()
