"""Start of the program that writes a run's report."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.run import report_start
from ddp_play.run.report_start import reported, start_report


class Programs:
    """Records what would be started."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.error: OSError | None = None

    def __call__(self, command: list[str], **_settings: Any) -> Any:
        if self.error:
            raise self.error
        self.commands.append(command)
        return type("Process", (), {})()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    found = Programs()
    monkeypatch.setattr("ddp_play.run.report_start.subprocess.Popen", found)
    monkeypatch.delenv("DDP_PLAY_REPORT")
    return found


@pytest.fixture
def ended() -> RunPaths:
    paths = RunPaths.of("calm-otter-1")
    paths.create()
    write_json(paths.run, {"status": "succeeded"})
    return paths


def test_it_is_a_program_of_its_own(programs: Programs, ended: RunPaths) -> None:
    start_report(ended)
    assert programs.commands == [[sys.executable, "-P", "-m", "ddp_play.report.report_process", str(ended.root)]]


def test_not_where_it_is_not_wanted(programs: Programs, ended: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_REPORT", "no")
    start_report(ended)
    assert programs.commands == []


def test_not_of_a_run_that_was_removed(programs: Programs) -> None:
    start_report(RunPaths.of("gone-1"))
    assert programs.commands == []


def test_a_program_that_cannot_start_changes_nothing(programs: Programs, ended: RunPaths) -> None:
    programs.error = OSError("no processes left")
    start_report(ended)


@pytest.mark.parametrize("has_background", [True, False])
def test_the_supervisor_starts_it_unless_a_background_process_will(
    programs: Programs, ended: RunPaths, has_background: bool
) -> None:
    with ended.background_lock.open("a") as lock:
        if has_background:
            fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="refused"), reported(str(ended.root)):
            raise ValueError("refused")
    assert len(programs.commands) == (0 if has_background else 1)


@pytest.mark.parametrize(("before", "written"), [(None, True), ("yes", True), ("no", False)])
def test_a_report_is_waited_for_where_all_processes_end_with_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, written: bool
) -> None:
    monkeypatch.setattr(report_start, "PROGRAM", "report_stand_in")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.delenv(report_start.REPORT_ENV, raising=False)
    if before is not None:
        monkeypatch.setenv(report_start.REPORT_ENV, before)
    paths = RunPaths(tmp_path / "calm-otter")
    paths.create()
    write_json(paths.run, {"status": "succeeded"})
    with report_start.report_within(paths, 30.0):
        assert os.environ[report_start.REPORT_ENV] == "no", "what is started here writes none"
    assert paths.report.exists() is written
    assert os.environ.get(report_start.REPORT_ENV) == before


def test_a_run_that_has_not_ended_gets_no_report_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job was requeued, and Slurm kills what takes long now."""
    monkeypatch.setattr(report_start, "PROGRAM", "report_stand_in")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.delenv(report_start.REPORT_ENV, raising=False)
    paths = RunPaths(tmp_path / "calm-otter")
    paths.create()
    write_json(paths.run, {"status": "waiting"})
    with report_start.report_within(paths, 30.0):
        pass
    assert not paths.report.exists()
