"""Bringing files home: which ones, in pieces, and what is said of those that stay."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import artifact_collection, untrusted_paths
from ddp_play.guard.protocol import FILE_LIMITS, MAX_PAYLOAD, OVER_LIMIT
from ddp_play.guard.run_directory import HostRun, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = 65534


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


def run(
    place: HostRun, *, patterns: tuple[str, ...] = ("**",), max_bytes: int = 10**6, user: Any = None, **source: Any
) -> Any:
    """(summary, path or name -> bytes)"""
    collected = {"path": str(place.src), "collect": True, "manifest": {}, **source}
    spec = {"ranks": [{"rank": 0}], "user": user, "source": collected}
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
    assert run(place) == ({"missing": [], "artifacts": [], "links": []}, {})


def test_directories_of_dumps_are_no_file_that_is_missing(place: HostRun) -> None:
    """torchft has one directory of dumps for each quorum; a directory was reported as a file that could not be read."""
    (place.rank_dir(0) / "flight-recorder-_quorum_3").mkdir()
    (place.rank_dir(0) / "flight-recorder-_quorum_3" / "0").write_bytes(b"old")
    (place.rank_dir(0) / "flight-recorder-0").write_bytes(b"dump")
    summary, files = run(place)
    assert (summary["missing"], files) == ([], {"flight-recorder": b"dump"})


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


def test_links_are_told_and_not_followed(place: HostRun, tmp_path: Path) -> None:
    """A link to the newest checkpoint was left out without a word, and so was one to files outside."""
    (place.src / "epoch=3.ckpt").write_bytes(b"weights")
    (place.src / "last.ckpt").symlink_to("epoch=3.ckpt")
    (place.src / "big").symlink_to(tmp_path, target_is_directory=True)
    (place.src / "from-the-source").symlink_to("epoch=3.ckpt")
    (place.src / "other.txt").symlink_to("epoch=3.ckpt")
    (place.src / "bad.ckpt").symlink_to("a\nb")
    summary, got = run(place, patterns=("*.ckpt", "big", "from*"), manifest={"from-the-source": [0, 1.0]})
    assert sorted(got) == ["epoch=3.ckpt"]
    assert summary["links"] == [
        {"path": "big", "link_to": str(tmp_path)},
        {"path": "last.ckpt", "link_to": "epoch=3.ckpt"},
    ]


def test_the_list_of_links_ends(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_collection, "MAX_LINKS", 3)
    for number in range(5):
        (place.src / f"{number}").symlink_to("x")
    assert [row["path"] for row in run(place)[0]["links"]] == ["0", "1", "2"]


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
    assert summary["missing"] == [{"path": "b", "why": OVER_LIMIT, "size": 600}]


def test_only_the_host_that_sent_the_source_collects(place: HostRun) -> None:
    (place.src / "model.pt").write_bytes(b"x")
    assert run(place, collect=False)[1] == {}


def test_only_what_was_asked_for(place: HostRun) -> None:
    (place.src / "model.pt").write_bytes(b"x")
    (place.src / "core").write_bytes(b"x" * 100)
    assert run(place, patterns=("*.pt",))[1] == {"model.pt": b"x"}


def test_a_file_that_vanishes_is_named(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.src / "gone").write_bytes(b"x")
    real = artifact_collection.new_files

    def new_files(*arguments: Any) -> Iterator[artifact_collection.Found]:
        for found in real(*arguments):
            (place.src / "gone").unlink()
            yield found

    monkeypatch.setattr(artifact_collection, "new_files", new_files)
    summary, _ = run(place)
    assert summary == {
        "missing": [{"path": str(place.src / "gone"), "why": "No such file or directory"}],
        "artifacts": [],
        "links": [],
    }


def test_a_directory_that_cannot_be_read_is_named(place: HostRun) -> None:
    """Whoever removes what was collected must know: a stale handle, an I/O error, the ranks' own private directory."""
    user = {"uid": NOBODY, "gid": NOBODY, "groups": []} if os.geteuid() == 0 else None
    (place.src / "checkpoints").mkdir(mode=0)
    (place.src / "model.pt").write_bytes(b"weights")
    summary, got = run(place, user=user)
    assert summary["missing"] == [{"path": str(place.src / "checkpoints"), "why": "Permission denied"}]
    assert got == {"model.pt": b"weights"}
    assert run(place, user=user, patterns=())[0]["missing"] == [], "nothing of it is wanted"


def test_a_working_directory_that_is_not_there_is_named(place: HostRun) -> None:
    """A shared directory that is not mounted any more is no empty one."""
    place.src.rmdir()
    summary, _ = run(place)
    assert summary["missing"] == [{"path": str(place.src), "why": "No such file or directory"}]


def test_names_that_no_other_end_takes_are_named(place: HostRun) -> None:
    (place.src / "evil\x1b[2J").write_bytes(b"x")
    (place.src / ("n" * 255)).write_bytes(b"long")
    deep = place.src / "/".join("d" * 70)
    deep.mkdir(parents=True)
    (deep / "f").write_bytes(b"x")
    summary, got = run(place)
    assert got == {"n" * 255: b"long"}
    assert [row["why"] for row in summary["missing"]] == [
        "its name has control characters",
        "is nested deeper than 64 directories",
    ]


def test_more_artifacts_than_the_limit_are_counted(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_collection, "MAX_ARTIFACTS", 3)
    monkeypatch.setattr(artifact_collection, "MAX_MISSING", 2)
    for number in range(9):
        (place.src / f"f{number}").write_bytes(b"x")
    summary, got = run(place)
    assert sorted(got) == ["f0", "f1", "f2"]
    assert summary["missing"] == [
        {"path": "f3", "why": "more than 3 artifacts of this host"},
        {"path": "f4", "why": "more than 3 artifacts of this host"},
        {"path": "more files, not counted", "why": "the list ends after 2"},
    ]


def test_a_long_search_shows_life_and_ends_when_nothing_more_can_be_sent(
    place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that sent nothing for 60 s while it searched a large directory was given up, and its artifacts lost."""
    for number in range(9):
        (place.src / f"f{number}").write_bytes(b"x")
    monkeypatch.setattr(artifact_collection, "ALIVE_EVERY_S", 0.0)
    monkeypatch.setattr(artifact_collection, "MAX_MISSING", 2)
    with untrusted_paths.directory(untrusted_paths.locate(place.src)) as top:
        beats: list[int] = []
        assert list(artifact_collection.new_files(top, {}, ["*.pt"], lambda: beats.append(1))) == []
        assert len(beats) == 18, "while names are listed, and while they are looked at"
    summary, got = run(place, max_bytes=1)
    assert sorted(got) == ["f0"]
    assert [row["path"] for row in summary["missing"]] == ["f1", "f2", "more files, not counted"]


def test_without_patterns_nothing_is_searched(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(artifact_collection, "new_files", searched)
    assert run(place, patterns=())[0] == {"missing": [], "artifacts": [], "links": []}


def test_a_file_of_a_rank_over_its_limit_is_named(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILE_LIMITS, "result.json", 1 << 20)
    (place.rank_dir(0) / "result.json").write_bytes(b"x" * ((1 << 20) + 1))
    summary, got = run(place)
    assert got == {}
    assert summary["missing"][0]["why"] == "larger than 1 MiB, the limit for this kind of file"


def test_a_file_to_which_others_append_ends(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.src / "log"
    path.write_bytes(b"first")
    sent = 0

    def send(_kind: str, payload: bytes, **_what: Any) -> None:
        nonlocal sent
        sent += len(payload)
        with path.open("ab") as more:
            more.write(b"x" * 1000)

    write_json(place.spec, {"source": {"path": str(place.src), "collect": True, "manifest": {}}})
    summary = artifact_collection.fetch(place, {"patterns": ["**"], "max_bytes": 10**6}, send)
    assert (sent, summary["artifacts"][0]["size"]) == (5, 5)


def test_files_over_the_limit_that_are_not_named_count_with_their_size(
    place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the limit that is advised would not suffice."""
    monkeypatch.setattr(artifact_collection, "MAX_MISSING", 2)
    for number in range(5):
        (place.src / f"f{number}").write_bytes(bytes(600))
    summary, got = run(place, max_bytes=1000)
    assert sorted(got) == ["f0"]
    assert summary["missing"][2] == {"path": "2 more files", "why": "the list ends after 2", "size": 1200}
