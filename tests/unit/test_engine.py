"""What killed tests have left of a Docker engine and of labs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine import DAEMONS, is_abandoned, remove_stale_pid_files


def pid_files(run_dir: Path, pid: int) -> list[Path]:
    """Write the pid of every daemon, as it left it."""
    paths = [run_dir / name for name in DAEMONS]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(pid))
    return paths


def proc_of(root: Path, pid: int, comm: str) -> Path:
    """A /proc in which one process runs."""
    (root / str(pid)).mkdir(parents=True)
    (root / str(pid) / "comm").write_text(f"{comm}\n")
    return root


def test_a_pid_that_another_process_has_now_is_removed(tmp_path: Path) -> None:
    paths = pid_files(tmp_path, os.getpid())
    remove_stale_pid_files(tmp_path)
    assert [path for path in paths if path.exists()] == []


def test_a_pid_that_nothing_has_is_removed(tmp_path: Path) -> None:
    paths = pid_files(tmp_path / "run", 4711)
    remove_stale_pid_files(tmp_path / "run", proc_of(tmp_path / "proc", 1, "init"))
    assert [path for path in paths if path.exists()] == []


def test_only_the_pid_file_of_a_daemon_that_runs_stays(tmp_path: Path) -> None:
    engine, containerd = pid_files(tmp_path / "run", 4711)
    remove_stale_pid_files(tmp_path / "run", proc_of(tmp_path / "proc", 4711, "containerd"))
    assert (engine.exists(), containerd.exists()) == (False, True)


def test_no_pid_files_are_no_error(tmp_path: Path) -> None:
    remove_stale_pid_files(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("command", "abandoned"), [("python3 .venv/bin/pytest -q", False), ("sshd", True), ("", True)])
def test_a_lab_is_abandoned_if_the_process_of_its_pytest_is_another_or_gone(
    tmp_path: Path, command: str, abandoned: bool
) -> None:
    folder, proc = tmp_path / "pytest-of-ops" / "pytest-3", tmp_path / "proc" / "4711"
    proc.mkdir(parents=True)
    folder.mkdir(parents=True)
    (proc / "cmdline").write_text(command.replace(" ", "\0"))
    (folder / ".lock").write_text("4711")
    state = folder / "popen-gw1" / "lab-home0" / "lab" / "test-2126"
    assert is_abandoned(state, proc.parent) == abandoned
    (folder / ".lock").unlink()
    assert is_abandoned(state, proc.parent)


def test_a_lab_outside_of_tests_is_not_abandoned() -> None:
    assert not is_abandoned(Path("/root/.local/state/ddp-play/lab/demo"))
