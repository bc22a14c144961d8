"""Lost hosts: silent ones and those without a guard; a controller that stalls loses none."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.guard.protocol import encode
from tests.unit.run.conftest import OK, Make


def test_a_guard_that_is_gone_is_a_lost_host(make: Make) -> None:
    stage = make(2)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].guard_gone = True
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.host, outcome.verdict.exit_code) == ("host_lost", "h2", 69)
    assert "its guard is gone" in outcome.verdict.message
    assert (outcome.missing, outcome.left) == ((), {}), (
        "the host itself answers: its files are collected and it is cleaned"
    )
    assert "clean" in stage.far["h2"].kinds()


def test_a_silent_host_is_lost_after_its_timeout(make: Make) -> None:
    stage = make(2, host_timeout=1.5)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["beat"] = []
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "host_lost"
    assert "silent for" in outcome.verdict.message
    assert outcome.missing[0]["host"] == "h2"
    assert "gc" in outcome.left["h2"][0]
    assert "clean" not in stage.far["h2"].kinds()


def test_a_controller_that_stalled_loses_no_host(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that was closed for a while: no host is lost because of it."""
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.05)
    stage = make(2, host_timeout=0.6)
    slept: list[float] = []

    def beat(_header: Any, _payload: bytes) -> list[bytes]:
        if len(slept) == 3:
            time.sleep(1.5)
        slept.append(1.0)
        ends = [stage.state("h2", "ended", **OK)] if len(slept) > 6 else []
        return [encode("beat", guard_gone=False), *ends]

    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["beat"] = beat
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert len(slept) > 6
