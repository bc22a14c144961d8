"""Heartbeats while a block runs that sends nothing."""

from __future__ import annotations

import threading

import pytest

from ddp_play.guard import heartbeats
from ddp_play.guard.heartbeats import beating


def test_they_come_until_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_S", 0.01)
    third = threading.Event()
    sent: list[int] = []

    def beat() -> None:
        sent.append(len(sent))
        if len(sent) == 3:
            third.set()

    with beating(beat):
        assert third.wait(10)
    assert "heartbeats" not in [thread.name for thread in threading.enumerate()]


def test_a_broken_connection_ends_them_and_not_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_S", 0.01)
    tried = threading.Event()

    def beat() -> None:
        tried.set()
        raise BrokenPipeError

    with beating(beat):
        assert tried.wait(10)


def test_an_error_of_the_block_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_S", 0.01)
    with pytest.raises(ValueError, match="refused"), beating(lambda: None):
        raise ValueError("refused")
    assert "heartbeats" not in [thread.name for thread in threading.enumerate()]
