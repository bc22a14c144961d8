"""The disk of the controller is full: the run goes on, and nothing is removed that is not home."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import disk_space, writer
from ddp_play.bundle.disk_space import DiskSpace
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.guard.protocol import encode
from tests.unit.run.conftest import Make

OVER: dict[str, Any] = {"state": "exited", "ended": 2.0, "exit_code": 0}


def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Appending fails while the returned list holds True."""
    full = [True]
    real = writer._append

    def append(path: Path, data: bytes) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(writer, "_append", append)

    def recover(room: DiskSpace) -> bool:
        was, room.full = room.full, room.full and full[0]
        return was and not room.full

    monkeypatch.setattr(DiskSpace, "recover", recover)
    monkeypatch.setattr("ddp_play.run.controller_disk_full.WAIT_FOR_SPACE_S", 0.3)
    return full


def test_a_full_disk_leaves_everything_on_the_hosts(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk(monkeypatch)
    stage = make(1, network="")
    stage.on_follow("h1", encode("log", b"line", rank=0, at=0), stage.state("h1", "ended", **OVER))
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == ("disk_full", 70)
    assert "exited 0" in outcome.verdict.message
    assert "attach" in outcome.verdict.hint
    assert outcome.missing[0]["host"] == "h1"
    assert "pause" in stage.far["h1"].kinds()
    assert "clean" not in stage.far["h1"].kinds()


def test_following_goes_on_when_there_is_room_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    full = full_disk(monkeypatch)
    stage = make(1, network="")
    line, over = encode("log", b"line", rank=0, at=0), stage.state("h1", "ended", **OVER)
    stage.far["h1"].state = {}
    answers = iter([[line], [line, over]])

    def pause(_header: Any, _payload: bytes) -> list[bytes]:
        full[0] = False
        return []

    stage.far["h1"].answers["follow"] = lambda _header, _payload: next(answers)
    stage.far["h1"].answers["pause"] = pause
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "done"
    assert stage.paths.log(0).read_bytes() == b"line"


def quota(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The file system has room and this user has none, while the returned list holds True."""
    full = [True]
    appended, allocated, wrote = writer._append, disk_space._allocate, write_json

    def refuse() -> None:
        if full[0]:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    def append(path: Path, data: bytes) -> None:
        refuse()
        appended(path, data)

    def allocate(path: Path, num_bytes: int) -> None:
        refuse()
        allocated(path, num_bytes)

    def write(path: Path, value: Any) -> None:
        refuse()
        wrote(path, value)

    monkeypatch.setattr(writer, "_append", append)
    monkeypatch.setattr(disk_space, "_allocate", allocate)
    monkeypatch.setattr("ddp_play.bundle.writer.write_json", write)
    monkeypatch.setattr("ddp_play.run.controller_disk_full.WAIT_FOR_SPACE_S", 0.3)
    return full


def test_free_space_behind_a_quota_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = quota(monkeypatch)
    room = DiskSpace(tmp_path)
    room.give_up()
    assert room.recover() is False
    full[0] = False
    assert room.recover() is False, "it is tried out every two seconds"
    monkeypatch.setattr(disk_space, "TRIAL_S", 0.0)
    assert room.recover() is True
    assert [path.name for path in tmp_path.iterdir()] == [".reserve"]


def test_pieces_under_way_when_the_quota_was_reached_are_sent_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows a piece that did not fit cannot be stored, and is no error either."""
    full = quota(monkeypatch)
    monkeypatch.setattr(disk_space, "TRIAL_S", 0.0)
    stage = make(1, network="")
    pieces = [encode("log", word, rank=0, at=at) for at, word in ((0, b"one "), (4, b"two "), (8, b"three"))]
    stage.far["h1"].state = {}
    over = stage.state("h1", "ended", **OVER)
    answers = iter([pieces[:1], [pieces[2], *pieces, over]])
    full[0] = False

    def follow(_header: Any, _payload: bytes) -> list[bytes]:
        full[0] = "pause" not in stage.far["h1"].kinds()
        return next(answers)

    def pause(_header: Any, _payload: bytes) -> list[bytes]:
        full[0] = False
        return []

    stage.far["h1"].answers.update(follow=follow, pause=pause)
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "done"
    assert stage.paths.log(0).read_bytes() == b"one two three"


def test_a_quota_that_stays_leaves_everything_on_the_hosts(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    full = quota(monkeypatch)
    full[0] = False
    stage = make(1, network="")

    def follow(_header: Any, _payload: bytes) -> list[bytes]:
        full[0] = True
        return [encode("log", b"line", rank=0, at=0), encode("log", b"next", rank=0, at=4), over]

    def bye(_header: Any, _payload: bytes) -> list[bytes]:
        full[0] = False  # the reserve of a real disk holds run.json
        return []

    over = stage.state("h1", "ended", **OVER)
    stage.far["h1"].state = {}
    stage.far["h1"].answers["follow"] = follow
    stage.far["h1"].answers["bye"] = bye
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == ("disk_full", 70)
    assert "clean" not in stage.far["h1"].kinds()
    assert read_json(stage.paths.run)["status"] == "failed"


def test_paused_hosts_are_not_idle(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing arrives while the disk is full, whatever the ranks print."""
    full = full_disk(monkeypatch)
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.1)
    stage = make(1, network="", idle_timeout=0.5, timeout=0.5)
    line, over = encode("log", b"line", rank=0, at=0), stage.state("h1", "ended", **OVER)
    running = stage.state("h1", "running")
    stage.far["h1"].state = {}
    answers = iter([[running, line], [line, over]])
    began = time.monotonic()

    def beat(_header: Any, _payload: bytes) -> list[bytes]:
        full[0] = time.monotonic() - began < 2.0
        return [encode("beat", guard_gone=False)]

    stage.far["h1"].answers.update(beat=beat, follow=lambda _header, _payload: next(answers))
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "done"
    assert "stop" not in stage.far["h1"].kinds()
