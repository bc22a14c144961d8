"""A channel in a step of an allocation: it outlives SIGTERM, and ends after its guard."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import allocation_step, guard_link
from ddp_play.guard.run_directory import HostRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_channel_elsewhere_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DDP_PLAY_STEP", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    with allocation_step.stay(lambda: HostRun(tmp_path)):
        assert signal.getsignal(signal.SIGTERM) == before


def test_in_a_step_a_signal_passes_and_the_end_waits_for_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDP_PLAY_STEP", "1")
    looks = [True, True, False]
    seen: list[bool] = []

    def look(_place: HostRun) -> tuple[dict[str, object], bool]:
        seen.append(looks.pop(0))
        return {}, seen[-1]

    monkeypatch.setattr(guard_link, "look", look)
    with allocation_step.stay(lambda: HostRun(tmp_path)):
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [True, True, False]


def test_a_channel_that_opened_no_run_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_STEP", "1")
    monkeypatch.setattr(guard_link, "look", lambda _place: pytest.fail("there is no run"))
    with allocation_step.stay(lambda: None):
        pass
