"""`ddp-play rm`."""

from __future__ import annotations

import fcntl
import json
import os

import pytest
from typer.testing import CliRunner, Result

from ddp_play.bundle.paths import RunPaths, home
from ddp_play.bundle.run_lookup import all_runs
from ddp_play.cli.main import app
from tests.unit.cli.run_directories import make_run


def rm(*words: str) -> Result:
    return CliRunner().invoke(app, ["rm", *words])


def left() -> list[str]:
    return sorted(run.paths.run_id for run in all_runs())


def test_without_a_terminal_it_only_lists() -> None:
    make_run("old")
    done = rm("old")
    assert done.exit_code == 1
    assert "nothing was removed; repeat the command with --yes" in done.stderr
    assert done.stdout.splitlines()[1].split()[:2] == ["old", "succeeded"]
    assert left() == ["old"]


def test_yes_removes_the_named_ones_only() -> None:
    for name in ("a", "ab", "b"):
        make_run(name)
    assert rm("a", "b", "a", "--yes").exit_code == 0
    assert left() == ["ab"]


@pytest.mark.parametrize("name", ["ol", "../old", "none"])
def test_a_name_that_is_not_a_run_removes_nothing(name: str) -> None:
    make_run("old")
    assert rm("old", name, "--yes").exit_code == 64
    assert left() == ["old"]


def test_what_a_killed_start_left_is_removed_but_no_start() -> None:
    paths = RunPaths(home() / "runs" / "night")
    paths.create()
    young = rm("night", "--yes")
    assert (young.exit_code, "run night is just starting" in young.stderr) == (64, True)
    os.utime(paths.root, (1.0, 1.0))
    assert "and what 1 killed command left" in rm("night").stdout
    assert rm("night", "--yes").exit_code == 0
    assert not paths.root.exists()


def test_a_directory_with_files_but_without_run_json_stays() -> None:
    paths = make_run("odd", logs=(b"x",))
    paths.run.unlink()
    os.utime(paths.root, (1.0, 1.0))
    done = rm("odd", "--yes")
    assert (done.exit_code, "kept odd: its run.json cannot be read" in done.stdout) == (1, True)
    assert paths.log(0).exists()


def test_a_live_run_stays_and_the_rest_goes() -> None:
    make_run("old")
    with make_run("live").background_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = rm("live", "old", "--yes", "--with-artifacts", "--force-uncollected")
    assert done.exit_code == 1
    assert "kept live: a process works on it: ddp-play attach live" in done.stdout
    assert left() == ["live"]


def test_artifacts_and_what_is_on_hosts_need_a_word_each() -> None:
    (make_run("trained").artifacts / "h1").mkdir(parents=True)
    make_run("lost", left_behind={"h1": ["/x"]})
    done = rm("trained", "lost", "--yes")
    assert done.exit_code == 1
    assert "kept trained: it has artifacts, perhaps the only copy; --with-artifacts removes them" in done.stdout
    assert "kept lost: not all was collected or removed: files on h1" in done.stdout
    assert rm("trained", "--yes", "--with-artifacts").exit_code == 0
    assert rm("lost", "--yes", "--force-uncollected").exit_code == 0
    assert left() == []


def test_json_lists_and_with_yes_removes() -> None:
    make_run("old", bundle_bytes=7)
    done = rm("old", "--json")
    assert done.exit_code == 1
    assert "nothing was removed; repeat the command with --yes" in done.stderr
    listed = json.loads(done.stdout)
    assert (listed["bytes"], listed["removed"], [row["run"] for row in listed["removable"]]) == (7, [], ["old"])
    assert left() == ["old"]
    assert json.loads(rm("old", "--json", "--yes").stdout)["removed"] == ["old"]
    assert left() == []
