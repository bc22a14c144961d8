"""A stop reaches hosts whose channel was down when it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.guard.protocol import encode
from tests.unit.run.conftest import OK, Make


@pytest.mark.parametrize("reported", ["running", "stopping"])
def test_a_host_that_missed_the_stop_gets_it_when_it_is_back(
    make: Make, monkeypatch: pytest.MonkeyPatch, reported: str
) -> None:
    """With what is left of the grace period. A host whose ranks got the signal gets no second one."""
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.5)
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.1)
    stage = make(2, grace="90s")
    for name in ("h1", "h2"):
        stage.ends_on_stop(name, exit_code=0, signal=None)
    h1, h2 = stage.far["h1"], stage.far["h2"]
    ended = h1.answers["stop"]

    def cut_and_stop(_header: Any, _payload: bytes) -> list[bytes]:
        if "stop" not in h1.kinds() and not h2.channels[-1].broken:
            h2.state = {**h2.state, "phase": reported}
            h2.channels[-1].cut("Connection reset by peer")
            write_json(stage.paths.control / "stop", {"reason": "stopped with ddp-play stop"})
        return [encode("beat", guard_gone=False)]

    def follow(_header: Any, _payload: bytes) -> list[bytes]:
        over = reported == "stopping" and len(h2.channels) > 1
        row = {**OK, "stopped": True} if over else {}
        return [stage.state("h2", "ended" if over else "running", **row)]

    h1.answers.update(beat=cut_and_stop, stop=ended)
    h2.answers["follow"] = follow
    assert stage.supervisor().run().status is RunStatus.STOPPED
    assert h2.kinds().count("stop") == (1 if reported == "running" else 0)
    if reported == "running":
        order = h2.order("stop")
        assert (order["reason"], order["signal"], order["now"]) == ("stopped with ddp-play stop", "SIGTERM", False)
        assert 80.0 < order["grace_s"] < 90.0
