"""Bringing files home: which ones, in pieces, and what is said of those that stay."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import artifact_collection
from ddp_play.guard.protocol import MAX_PAYLOAD
from ddp_play.guard.run_directory import HostRun, write_json

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "patterns", "taken"),
    [
        ("model.pt", ["**"], True),
        ("a/b/c", ["**"], True),
        ("a/b/c", ["**/*"], True),
        ("model.pt", ["*.pt"], True),
        ("model.txt", ["*.pt"], False),
        ("out/model.pt", ["out"], True),
        ("out/model.pt", ["out/"], True),
        ("out/deep/model.pt", ["out"], True),
        ("outer/model.pt", ["out"], False),
        ("model.pt", ["**/*.pt"], True),
        ("a/model.pt", ["**/*.pt"], True),
        ("a/model.pt", ["b/*", "a/*"], True),
        ("model.pt", [], False),
        ("Model.PT", ["*.pt"], False),
        ("größe.pt", ["größe.*"], True),
    ],
)
def test_globs(path: str, patterns: list[str], taken: bool) -> None:
    assert artifact_collection.matches(path, patterns) is taken


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    place = HostRun(tmp_path / "1.h1")
    place.src.mkdir(parents=True)
    place.rank_dir(0).mkdir()
    return place


def run(place: HostRun, *, patterns: tuple[str, ...] = ("**",), max_bytes: int = 10**6, **source: Any) -> Any:
    """(summary, path or name -> bytes, number of frames)"""
    spec = {"ranks": [{"rank": 0}], "source": {"path": str(place.src), "collect": True, "manifest": {}, **source}}
    write_json(place.spec, spec)
    got: dict[str, bytearray] = {}
    ended: list[str] = []

    def send(kind: str, payload: bytes, *, last: bool, **what: Any) -> None:
        assert kind == "file"
        assert len(payload) <= MAX_PAYLOAD
        name = what.get("path") or what["file"]
        got.setdefault(name, bytearray()).extend(payload)
        if last:
            ended.append(name)

    summary = artifact_collection.fetch(place, {"patterns": list(patterns), "max_bytes": max_bytes}, send)
    assert sorted(ended) == sorted(got), "every file ends once"
    return summary, {name: bytes(data) for name, data in got.items()}


def test_nothing_to_fetch(place: HostRun) -> None:
    assert run(place) == ({"missing": [], "artifacts": []}, {})


def test_what_ranks_wrote_for_us(place: HostRun) -> None:
    (place.rank_dir(0) / "result.json").write_bytes(b"{}")
    (place.rank_dir(0) / "other").write_bytes(b"x")
    assert run(place)[1] == {"result.json": b"{}"}


def test_only_what_the_snapshot_did_not_have(place: HostRun) -> None:
    for name in ("train.py", "grown.txt", "touched.txt", "new.pt", "__pycache__/x.pyc"):
        (place.src / name).parent.mkdir(exist_ok=True)
        (place.src / name).write_bytes(b"12345")
        os.utime(place.src / name, (1000, 1000))
    (place.src / "link").symlink_to("new.pt")
    os.utime(place.src / "touched.txt", (2000, 2000))
    manifest = {"train.py": [5, 1000.4], "grown.txt": [4, 1000.0], "touched.txt": [5, 1000.0]}
    _, got = run(place, manifest=manifest)
    assert sorted(got) == ["grown.txt", "new.pt", "touched.txt"]


def test_large_files_come_in_pieces_with_their_hash(place: HostRun) -> None:
    data = os.urandom(2 * MAX_PAYLOAD + 17)
    (place.src / "model.pt").write_bytes(data)
    summary, got = run(place, max_bytes=10**7)
    assert got["model.pt"] == data
    assert summary["artifacts"] == [{"path": "model.pt", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}]


def test_an_empty_file_comes_too(place: HostRun) -> None:
    (place.src / "done").touch()
    assert run(place)[1] == {"done": b""}


def test_what_is_over_the_cap_is_named(place: HostRun) -> None:
    for name, size in (("a", 600), ("b", 600), ("c", 300)):
        (place.src / name).write_bytes(b"x" * size)
    summary, got = run(place, max_bytes=1000)
    assert sorted(got) == ["a", "c"]
    assert summary["missing"] == [{"path": "b", "why": "larger than what is left of ddp_job_artifacts_max_mib"}]


def test_only_the_host_that_sent_the_source_collects(place: HostRun) -> None:
    (place.src / "model.pt").write_bytes(b"x")
    assert run(place, collect=False)[1] == {}


def test_only_what_was_asked_for(place: HostRun) -> None:
    (place.src / "model.pt").write_bytes(b"x")
    (place.src / "core").write_bytes(b"x" * 100)
    assert run(place, patterns=("*.pt",))[1] == {"model.pt": b"x"}


def test_a_file_that_vanishes_is_named(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.src / "gone").write_bytes(b"x")
    stat = (place.src / "gone").stat()
    (place.src / "gone").unlink()
    monkeypatch.setattr(artifact_collection, "new_files", lambda *_: [("gone", place.src / "gone", stat)])
    summary, _ = run(place)
    assert summary == {
        "missing": [{"path": str(place.src / "gone"), "why": "No such file or directory"}],
        "artifacts": [],
    }


def test_a_directory_that_cannot_be_read_is_named(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever removes what was collected must know: a stale handle, an I/O error, the ranks' own private directory."""
    (place.src / "checkpoints").mkdir()
    (place.src / "model.pt").write_bytes(b"weights")
    real = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("checkpoints"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    summary, got = run(place)
    assert summary["missing"] == [{"path": str(place.src / "checkpoints"), "why": "Permission denied"}]
    assert got == {"model.pt": b"weights"}
    assert run(place, patterns=())[0]["missing"] == [], "nothing of it is wanted"


def test_a_working_directory_that_is_not_there_is_named(place: HostRun) -> None:
    """A shared directory that is not mounted any more is no empty one."""
    place.src.rmdir()
    summary, _ = run(place)
    assert summary["missing"] == [{"path": str(place.src), "why": "No such file or directory"}]
