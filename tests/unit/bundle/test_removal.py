"""Removal of bundles in real directories: what goes, what stays and why, links and faults."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, home, write_json
from ddp_play.bundle.removal import half_removed, record_of, remove, sweep, uncollected_text
from ddp_play.bundle.removal_plan import BundleRecord, Rules
from ddp_play.bundle.run_lookup import all_runs, load
from ddp_play.errors import Busy, CheckFailed
from tests.open_directory import open_directory
from tests.unit.cli.run_directories import make_run

__all__ = ["open_directory"]
NOBODY = 65534


def record(paths: RunPaths) -> BundleRecord:
    return record_of(load(paths))


def left() -> list[str]:
    return sorted(path.name for path in (home() / "runs").iterdir())


def test_a_bundle_goes_and_a_second_removal_finds_nothing() -> None:
    paths = make_run("old", logs=(b"x",))
    found = record(paths)
    assert remove(found, Rules())
    assert left() == []
    assert not remove(found, Rules())


def test_what_the_record_says() -> None:
    row = {"attempt": 1, "host": "h1"}
    paths = make_run("old", started=None, directories={"h1": "/x"}, uncollected=[row], status="stopped")
    (paths.artifacts / "h1").mkdir(parents=True)
    found = record(paths)
    assert (found.artifacts, found.uncollected, found.since) == (True, "files of attempt 1 on h1", 3.0)
    assert not found.never_started
    assert record(make_run("typo", started=None, status="failed")).never_started


def test_artifacts_of_an_earlier_attempt_count() -> None:
    paths = make_run("old")
    write_json(paths.attempt(1).artifacts_manifest, [{"host": "h1", "path": "a.pt", "size": 1}])
    assert record(paths).artifacts


def test_links_alone_are_no_artifacts() -> None:
    paths = make_run("old")
    write_json(paths.artifacts_manifest, [{"host": "h1", "path": "last.ckpt", "link_to": "/scratch/a.ckpt"}])
    assert not record(paths).artifacts


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, ""),
        ({"missing": [{"host": "h1", "path": "a.pt", "why": "x"}]}, "a.pt of h1"),
        ({"left_behind": {"h2": ["x"]}}, "files on h2"),
        ({"exit_class": "disk_full"}, "the disk of this machine was full"),
        ({"missing": [None], "uncollected": ["x"]}, "files of attempt None on None, None of the hosts"),
        ({"left_behind": {host: ["x"] for host in "abcde"}}, "files on a, files on b, files on c and 2 more"),
    ],
)
def test_what_was_not_collected(document: dict[str, Any], text: str) -> None:
    assert uncollected_text(document) == text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ('{"status": "dancing"}', "has 'dancing' in status"),
        ('{"created": 1.0}', "has no status"),
    ],
)
def test_a_run_json_that_cannot_be_read_keeps_its_bundle(content: str, why: str) -> None:
    paths = make_run("odd")
    paths.run.write_text(content)
    with pytest.raises(Busy, match=why):
        remove(BundleRecord("odd"), Rules())
    assert left() == ["odd"]


@pytest.mark.parametrize("lock", ["supervisor.lock", "background.lock"])
def test_a_process_that_came_meanwhile_keeps_its_bundle(lock: str) -> None:
    paths = make_run("busy")
    found = record(paths)
    with (paths.root / lock).open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="a process works on it"):
            remove(found, Rules())
    assert left() == ["busy"]


def test_a_bundle_is_judged_again_at_its_removal() -> None:
    paths = make_run("old")
    found = record(paths)
    make_run("old", left_behind={"h1": ["/x"]})
    with pytest.raises(Busy, match="files on h1"):
        remove(found, Rules())
    assert paths.run.exists()


def test_a_linked_bundle_stays(tmp_path: Path) -> None:
    paths = make_run("moved")
    elsewhere = tmp_path / "disk2"
    shutil.move(paths.root, elsewhere)
    paths.root.symlink_to(elsewhere)
    assert record(paths).link == str(elsewhere)
    with pytest.raises(Busy, match="symbolic link"):
        remove(BundleRecord("moved"), Rules(with_artifacts=True))
    assert (elsewhere / "run.json").exists()


def test_links_in_a_bundle_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").touch()
    paths = make_run("old")
    (paths.root / "artifacts").symlink_to(tmp_path / "data")
    assert remove(record(paths), Rules(with_artifacts=True))
    assert (tmp_path / "data" / "precious").exists()
    assert left() == []


def test_the_link_of_output_goes_only_if_it_leads_to_the_bundle(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    paths = make_run("one", output=str(ours))
    ours.symlink_to(paths.root)
    other = make_run("two", output=str(theirs))
    theirs.mkdir()
    (theirs / "copy").touch()
    remove(record(paths), Rules())
    remove(record(other), Rules())
    assert not ours.is_symlink()
    assert (theirs / "copy").exists()


@pytest.fixture
def open_home(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory that another user can reach."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(open_directory))
    return open_directory


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes another user for this")
def test_files_that_cannot_be_deleted_are_named_and_tried_again(open_home: Path) -> None:
    paths = make_run("old", logs=(b"x", b"y"))
    for path in (open_home, *open_home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.chown(paths.root / "logs", 0, 0)
    (paths.root / "logs").chmod(0o755)
    found = record(paths)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(CheckFailed, match=r"rank-.\.log: Permission denied"):
            remove(found, Rules())
        assert all_runs() == []
        assert "Permission denied" in sweep()[0]
    finally:
        os.seteuid(0)
    assert len(half_removed()) == 1
    assert sweep() == []
    assert left() == []
