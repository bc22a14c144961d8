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


def test_directories_without_files_are_copied(tree: Path, tmp_path: Path) -> None:
    for name in ("logs", "ckpt/new", "only/excluded.pt"):
        (tree / name).mkdir(parents=True)
    (tree / "only" / "excluded.pt" / "x").touch()
    (tree / "pipes").mkdir()
    os.mkfifo(tree / "pipes" / "pipe")
    exclude = [".git", "*.pyc", "__pycache__", "excluded.pt"]
    snapshot = snap(tree, exclude=exclude)
    assert sorted(snapshot.manifest) == ALL
    out = unpack(snapshot, tmp_path / "out")
    empty = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_dir() and not any(path.iterdir()))
    assert empty == ["ckpt/new", "logs", "only", "pipes"]
    assert (out / "logs").stat().st_mode & 0o777 == 0o755
    assert snapshot.digest != snap(tree, exclude=[*exclude, "logs"]).digest


def test_directories_alone_are_no_source(tmp_path: Path) -> None:
    (tmp_path / "code" / "logs").mkdir(parents=True)
    with pytest.raises(UsageError, match="no files to copy"):
        snap(tmp_path / "code")


def test_a_dangling_link_can_be_included(tree: Path, tmp_path: Path) -> None:
    (tree / "later").symlink_to("/not/there/yet")
    out = unpack(snap(tree, include=["later", "train.py"]), tmp_path / "out")
    assert str((out / "later").readlink()) == "/not/there/yet"


def test_a_file_that_changes_is_once_in_the_archive(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in parts, into the archive: what was read before the change is taken out again."""
    monkeypatch.setattr("ddp_play.run.source_files.READ_BYTES", 100)
    path, contents = tree / "pkg" / "model.py", [b"old" * 300, b"new" * 200]
    path.write_bytes(contents[0])
    real = os.fstat
    calls: list[int] = []

    def fstat(fd: int) -> os.stat_result:
        found = real(fd)
        if str(Path(f"/proc/self/fd/{fd}").readlink()) == str(path) and not calls:
            calls.append(fd)
            path.write_bytes(contents[1])
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    snapshot = snap(tree)
    assert calls
    assert (unpack(snapshot, tmp_path / "out") / "pkg" / "model.py").read_bytes() == contents[1]
    monkeypatch.undo()
    again = snap(tree)
    assert (again.digest, again.archive[:]) == (snapshot.digest, snapshot.archive[:])


class _WarnedError(Exception):
    """A warning came."""


def warned(text: str) -> None:
    raise _WarnedError(text)


def test_of_a_large_tree_a_warning_names_the_largest_parts(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "data" / "big.bin").write_bytes(b"0" * (3 * 1048576))
    (tree / "pkg" / "weights").write_bytes(b"0" * 1048576)
    monkeypatch.setattr("ddp_play.run.source_snapshot.read_file", lambda *_: pytest.fail("it is warned before"))
    with pytest.raises(_WarnedError) as caught:
        take_snapshot(job(source=str(tree), source_max_mib=2), warn=warned)
    warning = str(caught.value)
    parts = "largest: data 3 MiB, pkg 1 MiB, train.py 0 MiB"
    assert warning.startswith(f"ddp_job_source: {tree} holds 4 MiB; {parts}; ")
    assert "ddp_job_source_exclude" in warning
    assert "ddp_job_source_max_mib (2)" in warning
    monkeypatch.undo()
    take_snapshot(job(source=str(tree), source_max_mib=2, source_exclude=["data", ".git"]), warn=warned)


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
    take_snapshot(job(source=str(tree), source_max_mib=1), warn=warned)


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
