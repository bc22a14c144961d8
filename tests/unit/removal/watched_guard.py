"""A guard in the test's own process, whose two ranks keep in which order they were asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import daemon, processes
from ddp_play.guard.daemon import Guard
from ddp_play.guard.ranks import Rank
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard.test_daemon import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Watched(Rank):
    """A rank that keeps in which order it was asked."""

    def __init__(self, number: int, place: HostRun, asked: list[str]) -> None:
        super().__init__({"rank": number}, place)
        self.asked = asked
        self.exit_code: int | None = None
        self.late = False
        self.prevented = 0

    def prevent_late_start(self) -> None:
        self.prevented += 1
        self.late = self.prevented < 3

    def start(self) -> None:
        self.asked.append(f"start {self.number}")
        self.row.update(state="running", started=time.time())

    def look(self) -> None:
        self.asked.append(f"look {self.number}")

    def poll(self) -> None:
        self.asked.append(f"poll {self.number}")
        if self.running and self.exit_code is not None:
            self.ended(self.exit_code)

    def deliver(self, signum: int) -> None:
        self.asked.append(f"signal {self.number}")

    @property
    def may_start_late(self) -> bool:
        return self.late


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guard]:
    """A guard in this process with two ranks, which changes nothing of the process."""
    place = HostRun(tmp_path / "1.h1")
    for directory in (place.control, place.logs):
        directory.mkdir(parents=True)
    ranks: list[dict[str, Any]] = [{"rank": number, "argv": ["true"], "env": {}, "workdir": "/"} for number in (0, 1)]
    write_json(place.spec, {"ranks": ranks, "limits": LIMITS})
    made = Guard(place)
    made.listen()
    asked: list[str] = []
    made.ranks[:] = [Watched(number, place, asked) for number in (0, 1)]
    made.units = made.ranks
    made.fence._units = made.fence._ranks = made.ranks
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for name in ("become_subreaper", "no_core_files"):
        monkeypatch.setattr(processes, name, lambda: None)
    monkeypatch.setattr(processes, "kill_descendants", lambda *_: 0)
    monkeypatch.setattr(daemon, "reap", lambda _: None)
    yield made
    made.fence.close()
    if made.control is not None:
        made.control.close()


def asked(guard: Guard) -> list[str]:
    rank = guard.ranks[0]
    assert isinstance(rank, Watched)
    return rank.asked
