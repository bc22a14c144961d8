"""The snapshot of the source tree: what is in it, what is not, and the same digest for the same tree."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.source_unpacking import unpack_source
from ddp_play.run.source_snapshot import Snapshot, take_snapshot
from tests.unit.build import job


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    for name, text in {
        "train.py": "print(1)\n",
        "pkg/model.py": "x = 1\n",
        "pkg/__pycache__/model.pyc": "junk",
        "old.pyc": "junk",
        ".git/HEAD": "ref",
        "data/big.bin": "0" * 100,
        "notes/größe λ.txt": "hej",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def snap(root: Path, **values: Any) -> Snapshot:
    return take_snapshot(job(source=str(root), **{f"source_{name}": value for name, value in values.items()}))


def unpack(snapshot: Snapshot, where: Path) -> Path:
    """As the host does it."""
    place = HostRun(where)
    where.mkdir()
    place.source_archive.write_bytes(snapshot.archive)
    unpack_source(place, {"source": {"role": "unpack", "path": str(place.src), "digest": snapshot.digest}})
    return place.src


ALL = ["data/big.bin", "notes/größe λ.txt", "pkg/model.py", "train.py"]


@pytest.mark.parametrize(
    ("values", "files"),
    [
        ({}, ALL),
        (
            {"exclude": ["data"]},
            ["notes/größe λ.txt", "old.pyc", "pkg/__pycache__/model.pyc", "pkg/model.py", "train.py", ".git/HEAD"],
        ),
        ({"exclude": [".git", "*.pyc", "pkg/*"]}, ["data/big.bin", "notes/größe λ.txt", "train.py"]),
        ({"include": ["pkg"]}, ["pkg/model.py"]),
        ({"include": ["train.py", "data"]}, ["data/big.bin", "train.py"]),
        ({"include": ["pkg", "pkg/model.py"]}, ["pkg/model.py"]),
    ],
)
def test_what_is_in_it(tree: Path, values: dict[str, Any], files: list[str]) -> None:
    snapshot = snap(tree, **values)
    assert sorted(snapshot.manifest) == sorted(files)
    assert snapshot.num_files == len(files)


def test_it_unpacks_to_the_same_files(tree: Path, tmp_path: Path) -> None:
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    out = unpack(snap(tree), tmp_path / "out")
    for name in ALL:
        assert (out / name).read_bytes() == (tree / name).read_bytes()
    assert os.access(out / "run.sh", os.X_OK)
    assert not (out / ".git").exists()


def test_the_same_tree_has_the_same_digest_wherever_and_whenever(tree: Path, tmp_path: Path) -> None:
    first = snap(tree)
    os.utime(tree / "train.py", (1, 1))
    moved = tree.rename(tmp_path / "elsewhere")
    assert snap(moved).digest == first.digest


@pytest.mark.parametrize("change", ["content", "name", "mode", "new"])
def test_any_change_changes_the_digest(tree: Path, change: str) -> None:
    before = snap(tree).digest
    path = tree / "train.py"
    if change == "content":
        path.write_text("print(2)\n")
    elif change == "name":
        path.rename(tree / "train2.py")
    elif change == "mode":
        path.chmod(0o755)
    else:
        (tree / "empty").touch()
    assert snap(tree).digest != before


def test_the_manifest_tells_artifacts_from_source(tree: Path) -> None:
    size, mtime = snap(tree).manifest["train.py"]
    assert size == 9
    assert mtime == pytest.approx((tree / "train.py").stat().st_mtime)


def test_symlinks_stay_symlinks(tree: Path, tmp_path: Path) -> None:
    """Also those to directories and those that lead out of the tree: on the hosts they may lead to data."""
    links = {
        "link.py": "train.py",
        "linked": "pkg",
        "data/out": "/data/imagenet",
        "gone": "nowhere",
        "pkg/up": "../train.py",
    }
    for name, target in links.items():
        (tree / name).symlink_to(target)
    out = unpack(snap(tree), tmp_path / "out")
    assert {name: str((out / name).readlink()) for name in links} == links
    assert (out / "linked" / "model.py").read_text() == "x = 1\n"


def test_a_symlink_loop_is_no_endless_walk(tree: Path) -> None:
    (tree / "pkg" / "loop").symlink_to("..")
    assert sorted(snap(tree).manifest) == sorted([*ALL, "pkg/loop"])


def test_hard_links_are_two_files(tree: Path, tmp_path: Path) -> None:
    (tree / "twin.py").hardlink_to(tree / "train.py")
    snapshot = snap(tree)
    assert snapshot.manifest["twin.py"][0] == snapshot.manifest["train.py"][0] == 9
    assert (unpack(snapshot, tmp_path / "out") / "twin.py").read_text() == "print(1)\n"


def test_file_names_may_be_any_bytes(tree: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (tree / name).write_bytes(b"x")
    assert (unpack(snap(tree), tmp_path / "out") / name).read_bytes() == b"x"


def test_sockets_and_pipes_are_left_out(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    assert sorted(snap(tree).manifest) == ALL


def test_of_a_large_tree_a_warning_names_the_largest_parts(tree: Path) -> None:
    (tree / "data" / "big.bin").write_bytes(b"0" * (3 * 1048576))
    (tree / "pkg" / "weights").write_bytes(b"0" * 1048576)
    found = snap(tree, max_mib=2)
    assert sorted(found.manifest) == sorted([*ALL, "pkg/weights"])
    parts = "largest: data 3 MiB, pkg 1 MiB, train.py 0 MiB"
    assert found.warning.startswith(f"ddp_job_source: {tree} holds 4 MiB; {parts}; ")
    assert "ddp_job_source_exclude" in found.warning
    assert "ddp_job_source_max_mib (2)" in found.warning
    assert snap(tree, max_mib=2, exclude=["data", ".git"]).warning == ""


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_a_tree_that_does_not_fit_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Free space is checked first; a quota shows itself when the archive is written."""
    monkeypatch.setattr("ddp_play.run.source_snapshot.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr("ddp_play.run.source_snapshot.tempfile.TemporaryFile", lambda **_: Path("/dev/full").open("wb"))  # noqa: SIM115 - _pack closes it
    with pytest.raises(UsageError, match=r"holds 0 MiB; largest: .*, more than the \d+ MiB that are free in") as caught:
        snap(tree)
    assert "free space" in caught.value.hint


def test_excluded_things_do_not_count(tree: Path) -> None:
    (tree / ".git" / "pack").write_bytes(b"0" * (3 * 1048576))
    assert snap(tree, max_mib=1).warning == ""


@pytest.mark.parametrize(
    ("where", "values", "words"),
    [
        ("nowhere", {}, "nowhere is not a directory"),
        ("repo/train.py", {}, "train.py is not a directory"),
        ("repo", {"include": ["gone"]}, "gone does not exist"),
        ("repo", {"exclude": ["*"]}, "no files to copy in"),
    ],
)
def test_refusals(tree: Path, where: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        snap(tree.parent / where, **values)
