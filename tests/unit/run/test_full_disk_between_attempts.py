"""The controller's disk fills up while an ended attempt is collected, and another one was to follow."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import writer
from ddp_play.bundle.disk_space import DiskRoom
from ddp_play.guard.protocol import encode
from ddp_play.testing import FakeHost
from tests.unit.run.conftest import OK, Make
from tests.unit.run.test_restart_loop import KILLED, attempts_opened, by_attempt, ends_when_told, staged

__all__ = ["staged"]


def test_nothing_follows_an_attempt_whose_files_find_no_room(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt would clean the hosts: what could not be stored here would be lost."""
    full: list[bool] = []
    real = writer._append

    def append(path: Path, data: bytes) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    def fetch(_header: Any, _payload: bytes) -> list[bytes]:
        full.append(True)
        return [
            encode("file", b"w", file="artifact", path="small.pt", last=True),
            encode("fetched", missing=[], artifacts=[]),
        ]

    monkeypatch.setattr(writer, "_append", append)
    monkeypatch.setattr(DiskRoom, "is_back", lambda _room: False)
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")
    stage.far["h1"].answers["fetch"] = fetch
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "disk_full"
    assert attempts_opened(stage, "h1") == [1]
    hosts: list[FakeHost] = [stage.far["h1"], stage.far["h2"]]
    assert ["clean" in host.kinds() for host in hosts] == [False, False]
    assert stage.document["status"] == "failed"
    assert set(stage.document["left_behind"]) == {"h1", "h2"}
