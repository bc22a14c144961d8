"""A stop reaches hosts whose channel was down when it was sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.guard.protocol import encode
from ddp_play.run.stop_decision import Stop
from ddp_play.run.stop_delivery import StopDelivery
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


class Hosts:
    """Two hosts; `told` has what was sent to which."""

    def __init__(self) -> None:
        self.links: Any = [SimpleNamespace(name=name, state={"phase": "running"}) for name in ("h1", "h2")]
        self.told: list[Any] = []

    def tell(self, kind: str, *, links: list[Any], **fields: Any) -> None:
        self.told.append((kind, [link.name for link in links], fields))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [500.0]
    monkeypatch.setattr("ddp_play.run.stop_delivery.time.monotonic", lambda: now[0])
    return now


SOFT = Stop("stopped", "enough", "SIGINT", 30.0)
NOW = Stop("stopped", "at once", "SIGTERM", 0.0, now=True)


def fields(stop: Stop, grace_s: float) -> dict[str, Any]:
    return {"reason": stop.reason, "signal": stop.signal, "grace_s": grace_s, "now": stop.now}


def test_a_stop_goes_to_all_hosts(clock: list[float]) -> None:
    gang: Any = Hosts()
    StopDelivery(gang).send(SOFT)
    assert gang.told == [("stop", ["h1", "h2"], fields(SOFT, 30.0))]


@pytest.mark.parametrize(
    ("stops", "state", "later_s", "sent"),
    [
        ([], {"phase": "running"}, 0.0, None),
        ([SOFT], {"phase": "running"}, 0.0, fields(SOFT, 30.0)),
        ([SOFT], {"phase": "running"}, 12.0, fields(SOFT, 18.0)),
        ([SOFT], {"phase": "running"}, 31.0, fields(SOFT, 0.0)),
        ([SOFT], {"phase": "prepared"}, 0.0, fields(SOFT, 30.0)),
        ([SOFT], {}, 0.0, fields(SOFT, 30.0)),
        ([SOFT], {"phase": "stopping"}, 0.0, None),
        ([SOFT], {"phase": "ended"}, 0.0, None),
        ([SOFT, NOW], {"phase": "stopping"}, 1.0, fields(NOW, 0.0)),
        ([SOFT, NOW], {"phase": "ended"}, 0.0, fields(NOW, 0.0)),
    ],
)
def test_what_a_host_that_is_back_gets(
    clock: list[float], stops: list[Stop], state: dict[str, Any], later_s: float, sent: dict[str, Any] | None
) -> None:
    gang: Any = Hosts()
    delivery = StopDelivery(gang)
    for stop in stops:
        delivery.send(stop)
    gang.told.clear()
    clock[0] += later_s
    gang.links[1].state = state
    delivery.on_back(gang.links[1])
    assert gang.told == ([] if sent is None else [("stop", ["h2"], sent)])
