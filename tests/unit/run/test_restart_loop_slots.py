"""Slots of hosts that another run holds: waited for in the same place of the queue, or refused."""

from __future__ import annotations

import time

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.errors import SlotsTaken
from ddp_play.guard.protocol import Header, encode
from ddp_play.run.attempt_assignment import Waiting
from ddp_play.testing import refusal
from tests.unit.run.conftest import OK, Make, by_attempt

TAKEN = "0 of 1 slots free and 1 needed; held by run night-1 of kim"


def waiting(seconds: float) -> Waiting:
    return Waiting(time.monotonic() + seconds)


def test_slots_that_another_run_took_first_are_waited_for_in_the_same_place(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number in the queue stays, its attempt number does not: hosts know the old one."""
    monkeypatch.setattr("ddp_play.run.slot_wait.SETTLE_S", 0.05)
    stage = make(2)
    for name in ("h1", "h2"):
        by_attempt(stage, name, a1=OK, a2=OK)
        stage.far[name].answers["queue"] = [encode("queued", clock=70.0, ready=True)]

    def prepare(_header: Header, _payload: bytes) -> list[bytes]:
        first = stage.far["h1"].order("open")["attempt"] == 1
        return refusal("prepare", TAKEN, error="slots") if first else [encode("prepared", guard_pid=1)]

    stage.far["h1"].answers["prepare"] = prepare
    assert stage.supervisor(waiting=waiting(60)).run().status is RunStatus.SUCCEEDED
    assert [header["attempt"] for header, _ in stage.far["h1"].orders if header["t"] == "open"] == [1, 2]
    assert [header["time"] for header, _ in stage.far["h1"].orders if header["t"] == "queue"][:2] == [None, 70.0]
    assert {header["time"] for header, _ in stage.far["h1"].orders if header["t"] == "queue"} == {None, 70.0}
    assert stage.far["h1"].order("prepare")["spec"]["queued"]


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_slots_are_not_waited_for_unrequested_or_too_long(make: Make, seconds: float | None) -> None:
    stage = make(2)
    stage.far["h1"].answers["prepare"] = refusal("prepare", "0 of 1 slots free; held by night-1", error="slots")
    with pytest.raises(SlotsTaken, match="h1: 0 of 1 slots free") as caught:
        stage.supervisor(waiting=None if seconds is None else waiting(seconds)).run()
    assert caught.value.exit_code == 75
    assert stage.far["h1"].kinds().count("prepare") == 1, "other ports would not help"
    assert stage.far["h1"].kinds().count("queue") == (0 if seconds is None else 2)
