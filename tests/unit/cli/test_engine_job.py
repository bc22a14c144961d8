"""The job of a run whose hosts come from an engine: the settings of the command line over those of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.plugin_variables import RUN_DIR_ENV
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.cli import engine_job, engine_start
from ddp_play.cli.options import Ansible
from ddp_play.engines import registry
from ddp_play.errors import UsageError
from ddp_play.testing import FakeEngine, FakePlaybookRunner
from tests.unit.build import job

NOTHING = Ansible()


def test_the_command_lines_settings_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(request: Any) -> None:
        found = job(hosts=2, slurm={"partition": "cpu", "account": "lab"})
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).job, found.model_dump(mode="json"))

    engine = FakeEngine()
    monkeypatch.setitem(registry.ENGINES, "fake", engine)
    monkeypatch.setattr(engine_job, "AnsibleRunner", lambda: FakePlaybookRunner(work=work))
    playbook = tmp_path / "train.yml"
    playbook.touch()
    engine_options = engine_start.EngineOptions("fake", ["partition=gpu"])
    paths = engine_options.submit(str(playbook), None, NOTHING, name="night-1", output=None).paths
    assert (paths.run_id, read_json(paths.run)["status"]) == ("night-1", "waiting")
    settings = engine.wanted[0].job.slurm
    assert (settings.partition, settings.account) == ("gpu", "lab")


def test_a_bad_setting_of_the_command_line_is_refused_before_there_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(request: Any) -> None:
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).job, job(hosts=2).model_dump(mode="json"))

    monkeypatch.setattr(engine_job, "AnsibleRunner", lambda: FakePlaybookRunner(work=work))
    playbook = tmp_path / "train.yml"
    playbook.touch()
    engine_options = engine_start.EngineOptions("slurm", ["time=soon"])
    with pytest.raises(UsageError, match="--slurm time"):
        engine_options.submit(str(playbook), None, NOTHING, name="night-1", output=None)
    assert not RunPaths.of("night-1").root.exists()
