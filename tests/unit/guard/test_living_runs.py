"""Runs of all users on this host, by their guards."""

from __future__ import annotations

import getpass
import subprocess
import sys
from pathlib import Path

import pytest

from ddp_play.guard.living_runs import living_runs


def test_runs_that_are_there_are_told_with_their_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", "x.pyc", "guard"]
    place = tmp_path / "host" / "runs" / "night.0123456789abcdef" / "1.h1"
    with subprocess.Popen([*waits, str(place)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        told = f"run night of {getpass.getuser()}"
        for root, expected in ((tmp_path / "host", [told]), (tmp_path / "other", []), (tmp_path / "ho", [])):
            monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(root))
            assert living_runs() == expected
        monkeypatch.delenv("DDP_PLAY_HOST_DIR")
        assert told in living_runs()
        process.kill()
