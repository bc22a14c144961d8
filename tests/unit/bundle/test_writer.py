"""Writing a run's bundle: every byte once, in order, and nothing outside the run's directory."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.bundle.writer import BeyondEndError, Bundle, read_tail
from tests.unit.build import hosts, plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    paths = RunPaths(tmp_path / "calm-otter-1")
    paths.create()
    return Bundle(paths)


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([(0, b"abc"), (3, b"def")], b"abcdef"),
        ([(0, b"abc"), (0, b"abc")], b"abc"),
        ([(0, b"abc"), (1, b"bcde")], b"abcde"),
        ([(0, b"abc"), (1, b"b")], b"abc"),
        ([(0, b"")], b""),
        ([(0, b"\xff\x00\n")], b"\xff\x00\n"),
    ],
)
def test_pieces_may_overlap(bundle: Bundle, pieces: list[tuple[int, bytes]], whole: bytes) -> None:
    """After a reconnect the host sends from an older offset; nothing may be doubled."""
    bundle.begin(plan())
    for at, data in pieces:
        bundle.data("log", 0, at, data)
    assert bundle.paths.log(0).read_bytes() == whole
    assert bundle.log_size(0) == len(whole)


def test_any_resending_gives_the_same_bytes(bundle: Bundle) -> None:
    chance = random.Random(7)
    data = chance.randbytes(5000)
    at = 0
    while at < len(data):
        begin = chance.randint(0, at)
        end = chance.randint(begin, min(len(data), begin + 700))
        bundle.data("log", 0, begin, data[begin:end])
        at = max(at, end)
    assert bundle.paths.log(0).read_bytes() == data


def test_a_piece_after_a_gap_is_not_stored(bundle: Bundle) -> None:
    bundle.data("log", 0, 0, b"abc")
    with pytest.raises(BeyondEndError, match="got offset 4, have 3"):
        bundle.data("log", 0, 4, b"e")
    assert bundle.paths.log(0).read_bytes() == b"abc"


def test_offsets_are_what_is_here(bundle: Bundle) -> None:
    made = plan(*hosts(2, slots=2))
    bundle.begin(made)
    bundle.data("log", 2, 0, b"abc")
    bundle.data("metrics", 3, 0, b"{}\n")
    assert bundle.offsets(made, "h1") == {"logs": {"0": 0, "1": 0}, "metrics": {"0": 0, "1": 0}, "nccl": {}}
    assert bundle.offsets(made, "h2") == {"logs": {"2": 3, "3": 0}, "metrics": {"2": 0, "3": 3}, "nccl": {}}


def test_arrival_times_are_kept_beside_the_log(bundle: Bundle) -> None:
    bundle.data("log", 0, 0, b"abc")
    bundle.data("log", 0, 3, b"def")
    bundle.data("metrics", 0, 0, b"{}\n")
    lines = bundle.paths.times(0).read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["0"], "one stamp a second"


def test_collected_files_appear_when_they_are_whole(bundle: Bundle) -> None:
    target = bundle.paths.result(1)
    bundle.file("h1", {"file": "result.json", "rank": 1, "last": False}, b'{"a":')
    assert not target.exists()
    bundle.file("h1", {"file": "result.json", "rank": 1, "last": False}, b" 1}")
    bundle.file("h1", {"file": "result.json", "rank": 1, "last": True}, b"")
    assert target.read_bytes() == b'{"a": 1}'
    assert [path.name for path in target.parent.iterdir()] == ["rank-1.json"]


def test_artifacts_are_kept_by_host(bundle: Bundle) -> None:
    for name in ("a", "b"):
        bundle.file(name, {"file": "artifact", "path": "out/model.pt", "last": True}, name.encode())
    assert (bundle.paths.artifacts / "a" / "out" / "model.pt").read_bytes() == b"a"
    assert (bundle.paths.artifacts / "b" / "out" / "model.pt").read_bytes() == b"b"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "..", "a/.."])
def test_no_artifact_leaves_the_bundle(bundle: Bundle, path: str) -> None:
    with pytest.raises(ValueError, match="sent an artifact with the path"):
        bundle.file("h1", {"file": "artifact", "path": path, "last": True}, b"evil")
    assert not bundle.paths.artifacts.exists()
    assert not (bundle.paths.root.parent / "x").exists()


@pytest.mark.parametrize("header", [{"file": "shadow", "rank": 0}, {"file": "result.json", "rank": "../../x"}])
def test_only_known_files_are_taken(bundle: Bundle, header: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError)):
        bundle.file("h1", {**header, "last": True}, b"evil")


def test_run_json_is_merged(bundle: Bundle) -> None:
    bundle.update_run(status="running", a=1)
    bundle.update_run(status="failed")
    assert read_json(bundle.paths.run) == {"status": "failed", "a": 1}
    bundle.update_run()
    assert read_json(bundle.paths.run) == {"status": "failed", "a": 1}


def test_everything_is_the_owners_alone(bundle: Bundle) -> None:
    bundle.begin(plan())
    bundle.data("log", 0, 0, b"abc")
    bundle.update_run(a=1)
    bundle.file("h1", {"file": "artifact", "path": "d/x", "last": True}, b"x")
    assert bundle.paths.root.stat().st_mode & 0o777 == 0o700
    for path in (bundle.paths.log(0), bundle.paths.times(0), bundle.paths.run):
        assert path.stat().st_mode & 0o777 == 0o600, path


@pytest.mark.parametrize(("limit", "text"), [(100, "grö\ufffd\n"), (3, "\ufffd\n"), (0, "")])
def test_tails_are_text(tmp_path: Path, limit: int, text: str) -> None:
    (tmp_path / "log").write_bytes("grö".encode() + b"\xff\n")
    assert read_tail(tmp_path / "log", limit)[-len(text) :] == text if text else not read_tail(tmp_path / "log", limit)


def test_no_log_no_tail(tmp_path: Path) -> None:
    assert read_tail(tmp_path / "nowhere", 10) == ""


def test_an_ended_attempt_is_put_away_under_the_same_names(bundle: Bundle) -> None:
    bundle.begin(plan())
    bundle.data("log", 0, 0, b"of the first\n")
    (bundle.paths.artifacts / "h1").mkdir(parents=True)
    bundle.paths.plan.write_text("{}")
    bundle.archive(1, {"status": "failed"})
    put = bundle.paths.attempt(1)
    assert put.log(0).read_bytes() == b"of the first\n"
    assert put.plan.read_text() == bundle.paths.plan.read_text() == "{}"
    assert (put.artifacts / "h1").is_dir()
    assert read_json(put.root / "outcome.json") == {"status": "failed"}
    assert not bundle.paths.log(0).exists()
    bundle.data("log", 0, 0, b"of the second\n")
    assert bundle.paths.log(0).read_bytes() == b"of the second\n"
