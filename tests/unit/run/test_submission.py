"""Submission of runs: two that start at the same time never get the same directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.errors import UsageError
from ddp_play.run.submission import create_run

FIRST = PlaybookRequest("/first.yml", ("/inv",), "/")
SECOND = PlaybookRequest("/second.yml", ("/inv",), "/")


def test_two_runs_that_start_at_once_do_not_share_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would write its playbook and token into the run.json of the first."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    create = RunPaths.create

    def meanwhile(paths: RunPaths) -> None:
        monkeypatch.setattr(RunPaths, "create", create)
        with pytest.raises(UsageError, match="run night exists already"):
            create_run(SECOND, name="night", output=None, argv=[])
        create(paths)

    monkeypatch.setattr(RunPaths, "create", meanwhile)
    paths = create_run(FIRST, name="night", output=None, argv=[])
    assert read_json(paths.run)["request"]["playbook"] == "/first.yml"
