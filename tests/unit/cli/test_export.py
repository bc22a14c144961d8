"""`ddp-play export`: to standard output or to a file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ddp_play.ansible.plugin_variables import RUN_DIR_ENV
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.cli import engine_job
from ddp_play.cli.main import app
from ddp_play.testing import FakePlaybookRunner
from tests.unit.build import job


@pytest.fixture
def playbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    def work(request: Any) -> None:
        found = job(hosts=2, slurm={"partition": "cpu", "account": "lab"})
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).job, found.model_dump(mode="json"))

    monkeypatch.setattr(engine_job, "AnsibleRunner", lambda: FakePlaybookRunner(work=work))
    path = tmp_path / "train.yml"
    path.touch()
    return str(path)


def test_the_script_is_the_output(playbook: str) -> None:
    done = CliRunner().invoke(app, ["export", playbook, "--slurm", "partition=gpu"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == ["#!/bin/bash", "# Exported from train.yml by ddp-play; runs without it: sbatch THIS-FILE"]
    assert {"#SBATCH --partition=gpu", "#SBATCH --account=lab"} <= set(lines)


def test_or_a_file(playbook: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", playbook, "--output", str(tmp_path / "train.sh")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / "train.sh").read_text().startswith("#!/bin/bash\n")


def test_the_command_for_an_odd_name(playbook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["export", playbook, "--output", "-x.sh"])
    assert done.stderr == "-x.sh: sbatch ./-x.sh\n"
    for name, says in (("none/x.sh", "there is no directory none\n  -> mkdir -p none"), (".", ". is a directory")):
        done = CliRunner().invoke(app, ["export", playbook, "--output", name])
        assert (done.exit_code, says in done.stderr) == (64, True), done.stderr


def test_an_unknown_scheduler_is_refused(playbook: str) -> None:
    done = CliRunner().invoke(app, ["export", playbook, "--to", "moon"])
    assert done.exit_code == 64
    assert "no export to moon" in done.stderr
