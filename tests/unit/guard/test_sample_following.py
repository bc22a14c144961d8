"""Samples that are new to a reader: each once, after thinning, in pieces, and from the newest that is there on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import sample_following
from ddp_play.guard.sample_file import line_of, lines_of, rows_of
from ddp_play.guard.sample_following import FollowedSamples

HEADER = line_of({"cores": 4})


def row(up: float, seconds: float = 2.0) -> bytes:
    return line_of({"up": up, "s": seconds})


def ends(data: bytes) -> list[float]:
    return [each["up"] for each in rows_of(data)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "samples.jsonl"


def test_no_file_yet(path: Path) -> None:
    followed = FollowedSamples(path, 0.0)
    assert followed.take() == b""
    path.write_bytes(HEADER + row(2.0))
    assert followed.take() == HEADER + row(2.0)
    assert followed.take() == b""


def test_half_a_line_waits(path: Path) -> None:
    followed = FollowedSamples(path, 0.0)
    path.write_bytes(HEADER + row(2.0) + row(4.0)[:5])
    assert ends(followed.take()) == [2.0]
    with path.open("ab") as file:
        file.write(row(4.0)[5:])
    assert followed.take() == row(4.0)


def test_only_rows_that_the_reader_lacks(path: Path) -> None:
    path.write_bytes(HEADER + row(2.0) + row(4.0) + row(6.0))
    assert FollowedSamples(path, 4.0).take() == HEADER + row(6.0)
    assert FollowedSamples(path, 4.0).take_rows() == [{"up": 6.0, "s": 2.0}]


def test_a_thinned_file_repeats_nothing(path: Path) -> None:
    followed = FollowedSamples(path, 0.0)
    path.write_bytes(HEADER + row(2.0) + row(4.0))
    followed.take()
    other = path.with_name("other")
    other.write_bytes(HEADER + row(4.0, 4.0) + row(6.0))
    other.replace(path)
    assert ends(followed.take()) == [6.0]


def test_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_following, "MAX_PAYLOAD", 30)
    path.write_bytes(HEADER + b"".join(row(float(number)) for number in range(1, 9)))
    followed, found = FollowedSamples(path, 0.0), b""
    for _ in range(20):
        found += followed.take()
    assert ends(found) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def test_a_line_without_an_end_is_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_following, "MAX_PAYLOAD", 30)
    path.write_bytes(HEADER + b"x" * 500 + b"\n" + row(2.0))
    followed, found = FollowedSamples(path, 0.0), b""
    for _ in range(30):
        found += followed.take()
        assert len(followed._rest) < 60
    assert ends(found) == [2.0]


def test_no_link_is_followed(path: Path) -> None:
    target = path.with_name("secret")
    target.write_bytes(HEADER + row(2.0))
    path.symlink_to(target)
    assert FollowedSamples(path, 0.0).take() == b""


def test_rows_too_deep_for_python_are_left_out(path: Path) -> None:
    """The depth at which Python gives up depends on the callers, and is not the same for reading and writing."""
    for depth in range(850, 1000):
        path.write_bytes(HEADER + b'{"up": 1, "s": 1, "x": %s%s}\n' % (b"[" * depth, b"]" * depth) + row(2.0))
        assert FollowedSamples(path, 0.0).take().endswith(row(2.0))
        assert FollowedSamples(path, 0.0).take_rows()[-1] == {"up": 2.0, "s": 2.0}
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert lines_of([{"up": 1.0, "s": 1.0, "x": deep}, {"up": 2.0, "s": 2.0}]) == row(2.0)
