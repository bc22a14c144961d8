"""What the observer tells of hosts, once."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.engines.route import Route
from ddp_play.guard.protocol import encode
from ddp_play.run.host_frames import MAX_CHANGES
from ddp_play.run.link import Link
from ddp_play.run.rank_observer import Observer
from tests.unit.build import hosts, plan
from tests.unit.run.conftest import OK, Make

PROBLEM = "/var/lib/ddp-play/runs/night/1.h2: No space left on device"


def test_a_host_that_cannot_store_logs_is_named_once(make: Make) -> None:
    stage = make(2)
    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    running = [stage.state("h2", "running") for _ in range(3)]
    full = [frame(stage.far["h2"].state, disk_problem=problem) for problem in (PROBLEM, PROBLEM, "")]
    stage.on_follow("h2", *running[:1], *full[:2])
    beats = iter([full[2], stage.state("h2", "ended", **OK)])
    stage.far["h2"].answers["beat"] = lambda _header, _payload: [next(beats, b"")]
    assert stage.supervisor().run().verdict.kind == "done"
    said = [row["message"] for row in stage.events("warning") if row["message"].startswith("h2: ")]
    assert len(said) == 2
    assert PROBLEM in said[0]
    assert "can be written again" in said[1]


def test_a_host_cannot_fill_the_journal_with_its_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.0)
    stage = make(2)
    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    first = stage.state("h2", "running")
    running = stage.far["h2"].state
    over = stage.state("h2", "ended", **OK)
    stage.far["h2"].state = {}
    supervisor = stage.supervisor()
    turns = iter(range(3 * MAX_CHANGES))

    def flips(_header: Any, _payload: bytes) -> list[bytes]:
        turn = next(turns, None)
        return [over] if turn is None else [frame(running, disk_problem=PROBLEM if turn % 2 else "")]

    stage.on_follow("h2", first)
    stage.far["h2"].answers["beat"] = flips
    assert supervisor.run().verdict.kind == "done"
    assert len([row for row in stage.events("warning") if row["message"].startswith("h2: ")]) == MAX_CHANGES


def observed(*, silent_s: float = 0.0, connected: bool = True, state: str = "running", idle_s: float = 50.0) -> float:
    """What the idle timeout counts two seconds later, on a gang of two hosts of which the second is like this."""
    now = time.monotonic()
    links = [Link(name, Route(name, ("ssh", name), "channel")) for name in ("h1", "h2")]
    for number, link in enumerate(links):
        link.state = {"ranks": {str(number): {"state": "running"}}}
        link.channel = SimpleNamespace(broken="")  # type: ignore[assignment]
    links[1].state = {"ranks": {"1": {"state": state, "exit_code": 0}}}
    links[1].channel = SimpleNamespace(broken="" if connected else "the network is gone")  # type: ignore[assignment]
    bundle = SimpleNamespace(
        last_data=now - idle_s,
        disk_space=SimpleNamespace(full=False),
        any_output=True,
        log_size=lambda _: 0,
        tail=lambda _: "",
    )
    gang = SimpleNamespace(links=links, link=lambda name: links[name == "h2"])
    observer = Observer(plan(*hosts(2)), gang, bundle, Journal(Path("/dev/null")))  # type: ignore[arg-type]
    observer._looked = now - 2.0
    for link in links:
        link.heard = now
    links[1].heard = now - silent_s
    return observer.view().idle_s


@pytest.mark.parametrize(
    ("how", "idle_s"),
    [
        ({}, 50.0),
        ({"silent_s": 20.0}, 48.0),
        ({"connected": False}, 48.0),
        ({"silent_s": 20.0, "state": "exited"}, 50.0),
        ({"silent_s": 20.0, "idle_s": 1.0}, 0.0),
    ],
)
def test_ranks_of_a_host_that_cannot_be_heard_do_not_count_as_idle(how: dict[str, Any], idle_s: float) -> None:
    """They print, and nobody hears it: a short interruption ended healthy runs."""
    assert observed(**how) == pytest.approx(idle_s, abs=0.5)


def test_a_host_whose_clock_was_set_back_still_shows_traffic() -> None:
    bundle = SimpleNamespace(last_data=0.0)
    link = Link("h1", Route("h1", ("ssh", "h1"), "channel"))
    gang = SimpleNamespace(links=[link])
    observer = Observer(plan(*hosts(1)), gang, bundle, Journal(Path("/dev/null")))  # type: ignore[arg-type]
    for moved in (7200.0, 100.0):
        bundle.last_data = 0.0
        link.state = {"traffic_at": moved}
        observer._notice_traffic()
        assert bundle.last_data > 0, moved
        observer._notice_traffic()


def frame(state: dict[str, Any], **more: Any) -> bytes:
    return encode("state", state={**state, **more})
