"""An attempt on a host as `prepare` leaves it, and a directory that all attempts of its run share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_directories
from ddp_play.guard.run_directory import HostRun, write_json

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared" / ".ddp-play" / "r1"
    path.mkdir(parents=True)
    (path / "checkpoint").touch()
    return path


def laid_out(tmp_path: Path, shared: Path, attempt: int, *, head: bool = True) -> HostRun:
    """An attempt as `prepare` leaves it."""
    place = HostRun(tmp_path / "state" / "runs" / "r1" / f"{attempt}.h1")
    none = {"role": "none", "path": "", "collect": False}
    spec: dict[str, Any] = {"ranks": [], "source": none, "user": None, "attempt": attempt, "head": head}
    spec["run_paths"] = [str(shared)]
    attempt_directories.create_files(place, spec)
    write_json(place.spec, spec)
    return place
