"""The time after which no rank of an ended attempt can be alive on a host."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import write_json
from ddp_play.engines.route import Route
from ddp_play.errors import HostNotReady, Interrupted
from ddp_play.guard.protocol import encode
from ddp_play.run.fencing import FENCE_MARGIN_S, dead_after, fence
from ddp_play.run.kept_output import Order, keep_all_of
from ddp_play.run.link import Link
from ddp_play.run.presence import Presence
from ddp_play.run.stop_requests import StopRequests
from tests.unit.build import hosts, plan
from tests.unit.run.conftest import Make, Stage

MADE = plan(*hosts(2), lease="60s", grace="10s")


@pytest.mark.parametrize(
    ("said", "waits_s"),
    [
        ({"lost": "silent for 30 s"}, 60 + 10 + FENCE_MARGIN_S),
        ({}, 60 + 10 + FENCE_MARGIN_S),
        ({"lost": "silent for 30 s", "replies": {"cleaned": {"left": []}}}, 60 + 10 + FENCE_MARGIN_S),
        ({"replies": {"cleaned": {"left": ["container x: engine is down"]}}}, float("inf")),
        ({"replies": {"cleaned": {"left": ["x", "y"], "alive": ["container x: engine is down"]}}}, float("inf")),
        ({"replies": {"cleaned": {"left": ["data: Read-only file system"], "alive": []}}}, 0),
    ],
)
def test_a_silent_hosts_ranks_are_dead_after_lease_grace_and_margin(said: dict[str, Any], waits_s: float) -> None:
    """The time counts from the host's last message. A host that answers but could not clean up is never safe."""
    link = Link("h2", Route("h2", ("ssh", "h2"), "channel"), heard=1000.0, **said)
    assert dead_after(link, MADE) == 1000.0 + waits_s


# -- waiting for hosts that were lost ------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, and try again soon where no channel opens."""
    monkeypatch.setattr("ddp_play.run.fencing.POLL_S", 0.02)
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.05)


def fenced(
    stage: Stage, kept: list[Any] | None = None, keeps: dict[str, Order] | None = None, **waits_s: float
) -> set[str]:
    """Wait for these hosts, at most so long."""
    now = time.monotonic()
    return fence(
        stage.supervisor().assignment,
        {host: now + wait for host, wait in waits_s.items()},
        StopRequests(stage.paths),
        Journal(stage.paths.events),
        keeps=keeps or {},
        on_kept=lambda host, rows: (kept if kept is not None else []).append((host, rows)),
        presence=Presence(),
    )


def test_without_lost_hosts_there_is_no_wait(make: Make) -> None:
    stage = make(2)
    assert fenced(stage) == set()
    assert stage.far.routes == []
    assert stage.events("waiting") == []


def test_hosts_whose_ranks_may_never_end_are_named(make: Make) -> None:
    stage = make(3)
    with pytest.raises(HostNotReady, match=r"^h1, h3: ranks of attempt 1 may still run there") as caught:
        fenced(stage, h3=float("inf"), h2=1.0, h1=float("inf"))
    assert caught.value.hosts == ("h1", "h3")
    assert stage.far.routes == []


def test_a_host_that_is_back_and_clean_ends_the_wait(make: Make) -> None:
    """It gets no heartbeat meanwhile: that would renew the lease of ranks which have to end."""
    stage = make(2)
    began = time.monotonic()
    assert fenced(stage, h2=600.0) == set()
    assert time.monotonic() - began < 10
    assert stage.far["h2"].kinds() == ["open", "clean", "bye"]
    assert stage.far["h2"].order("clean")["run_paths"] == []
    assert stage.far["h1"].kinds() == []
    (event,) = stage.events("waiting")
    assert event["for_hosts"] == ["h2"]
    assert event["at_most_s"] == pytest.approx(600.0, abs=1.0)


def test_files_that_cannot_be_removed_are_no_ranks(make: Make) -> None:
    """The next attempt may start; the host still has to be cleaned."""
    stage = make(2)
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=["data: Read-only file system"], alive=[])]
    began = time.monotonic()
    assert fenced(stage, h2=600.0) == {"h2"}
    assert time.monotonic() - began < 10


def test_a_host_that_does_not_answer_is_waited_for_until_its_lease_has_expired(make: Make) -> None:
    stage = make(2)
    stage.far["h2"].answers["clean"] = []
    began = time.monotonic()
    assert fenced(stage, h1=600.0, h2=0.5) == {"h2"}
    assert time.monotonic() - began >= 0.5
    assert stage.far["h2"].kinds().count("clean") == 1, "once for each connection"


def test_a_host_that_is_back_with_ranks_that_did_not_end_forbids_another_attempt(make: Make) -> None:
    """No lease ends a rank that survives SIGKILL, so the end of the wait proves nothing."""
    stage = make(3)
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=["rank 0: process 12 did not end after SIGKILL"])]
    began = time.monotonic()
    with pytest.raises(HostNotReady) as caught:
        fenced(stage, h1=600.0, h2=60.0, h3=600.0)
    assert time.monotonic() - began < 10
    assert caught.value.message == (
        "h2: ranks of attempt 1 may still run there, so no other attempt is started\n"
        "h2: rank 0: process 12 did not end after SIGKILL"
    )
    assert caught.value.hosts == ("h2",)
    assert all(channel.broken for host in stage.far.values() for channel in host.channels), "the channels are closed"


def test_a_host_that_is_cut_off_is_told_again(make: Make) -> None:
    stage = make(2)

    def cut(_header: Any, _payload: bytes) -> list[bytes]:
        stage.far["h2"].answers.pop("clean")
        stage.far["h2"].channels[-1].cut("the network is gone")
        return []

    stage.far["h2"].answers["clean"] = cut
    assert fenced(stage, h2=30.0) == set()
    assert stage.far["h2"].kinds().count("clean") == 2


def test_a_stop_ends_the_wait(make: Make) -> None:
    stage = make(2)
    stage.far["h2"].answers["open"] = []
    write_json(stage.paths.control / "stop", {"reason": "enough"})
    began = time.monotonic()
    with pytest.raises(Interrupted, match="stopped while it waited for h2"):
        fenced(stage, h2=600.0)
    assert time.monotonic() - began < 10
    assert all(channel.broken for channel in stage.far["h2"].channels), "the channels are closed"


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_not_collected_is_kept_and_named_once(make: Make, keep: bool) -> None:
    """The end of the logs of a host that was lost is nowhere else."""
    stage = make(2, source="/code")
    own = ["/state/h2/src", "/state/h2/logs", "/state/h2/rank-1"]
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=[], kept=[*own, "/shared/r"] if keep else [])]
    stage.far["h1"].answers["clean"] = []
    kept: list[Any] = []
    assert fenced(stage, kept, keep_all_of(stage.plan, ["h2"] if keep else ["h1"]), h1=0.3, h2=30.0) == {"h1"}
    order = stage.far["h2"].order("clean")
    assert (order["keep_src"], order.get("keep", [])) == (keep, ["logs", "rank-1"] if keep else [])
    row = "/state/h2: not collected; ddp-play attach calm-otter-1 collects it"
    assert kept == ([("h2", [row])] if keep else [])
