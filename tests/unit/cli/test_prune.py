"""`ddp-play prune`."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner, Result

from ddp_play.bundle import run_lookup
from ddp_play.bundle.paths import home, read_json, runs_dir
from ddp_play.bundle.run_lookup import all_runs
from ddp_play.bundle.verb_paths import VERBS
from ddp_play.cli.main import app
from tests.unit.cli.run_directories import make_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DAY_S = 86_400


def prune(*words: str) -> Result:
    return CliRunner().invoke(app, ["prune", *words])


def left() -> list[str]:
    return sorted(run.paths.run_id for run in all_runs())


def several() -> None:
    now = time.time()
    for number in range(3):
        make_run(f"old-{number}", created=100.0 + number, ended=200.0)
    make_run("new", created=now - DAY_S, ended=now - DAY_S)
    make_run("typo", started=None, status="failed", created=now - 2 * DAY_S, ended=now - 2 * DAY_S)
    (make_run("trained").artifacts / "h1").mkdir(parents=True)


def test_the_defaults_take_only_what_never_started() -> None:
    several()
    assert prune("--yes").exit_code == 0
    assert left() == ["new", "old-0", "old-1", "old-2", "trained"]


def test_beyond_the_newest_and_older() -> None:
    several()
    done = prune("--keep", "2", "--older-than", "30d", "--yes")
    assert left() == ["new", "old-2", "trained"]
    assert "kept trained: it has artifacts" in done.stdout
    assert "kept 2: among the newest 2" in done.stdout


def test_artifacts_go_with_their_word() -> None:
    several()
    assert prune("--keep", "0", "--older-than", "7d", "--with-artifacts", "--yes").exit_code == 0
    assert left() == ["new"]


def test_a_bundle_that_stays_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand of them a second reading takes as long as the first."""
    for number in range(3):
        make_run(f"old-{number}", created=100.0 + number, finished=True)
    read: list[Path] = []

    def noted(path: Path) -> dict[str, Any]:
        read.append(path)
        return read_json(path)

    monkeypatch.setattr(run_lookup, "read_json", noted)
    assert prune("--json").exit_code == 0
    assert sorted(read) == [runs_dir() / f"old-{number}" / "run.json" for number in range(3)]


def test_nothing_goes_without_yes() -> None:
    several()
    before = left()
    for words in ((), ("--dry-run",), ("--json",), ("--json", "--dry-run")):
        done = prune("--keep", "0", *words)
        assert done.exit_code == 0
        assert ("nothing was removed; repeat the command with --yes" in done.stderr) is ("--dry-run" not in words)
        assert left() == before


def test_json_has_a_reason_for_each_that_stays() -> None:
    several()
    document = json.loads(prune("--keep", "2", "--json").stdout)
    assert [row["run"] for row in document["removable"]] == ["typo", "old-1", "old-0"]
    assert {row["run"] for row in document["kept"] if row["why"]} == {"new", "old-2", "trained"}


def test_a_duration_that_is_none_and_a_contradiction() -> None:
    several()
    before = left()
    assert prune("--older-than", "soon", "--yes").exit_code == 64
    assert prune("--yes", "--dry-run", "--keep", "0").exit_code == 64
    assert left() == before


def test_directories_of_killed_verbs_on_an_allocation_go_too() -> None:
    left_one = home() / VERBS / "check-calm-otter-1"
    left_one.mkdir(parents=True)
    os.utime(left_one, (1.0, 1.0))
    assert "and what 1 killed command left" in prune("--dry-run").stdout
    assert left_one.is_dir()
    assert prune("--yes").exit_code == 0
    assert not left_one.exists()
