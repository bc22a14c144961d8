"""Requests to all hosts of an attempt over fake channels: replies, refusals, broken channels and heartbeats."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.route import Route
from ddp_play.errors import HostNotReady, Interrupted, SlotsTaken
from ddp_play.guard.protocol import encode
from ddp_play.run import host_links
from ddp_play.run.attempt_assignment import Assignment, links_of
from ddp_play.run.host_links import Gang
from ddp_play.testing import FakeChannel, refusal
from tests.unit.run.conftest import Make, Stage

if TYPE_CHECKING:
    from collections.abc import Callable


def opened(
    stage: Stage,
    interruption: Callable[[str], str] = lambda _kind: "",
    *,
    deadline_s: float = 10.0,
    channels: dict[str, Any] | None = None,
) -> Gang:
    """A gang with a channel to each fake host of the stage. `channels`: open ones, of discovery."""
    routes = tuple(Route(name, ("ssh", name), "channel") for name in stage.far)
    gang = Gang(
        links_of(Assignment(stage.plan, routes, stage.paths), set(stage.far)),
        run_id=stage.paths.run_id,
        token="",
        attempt=1,
        interruption=interruption,
    )
    gang.open_all(deadline_s=deadline_s, channels=channels)
    return gang


def test_a_request_goes_to_all_hosts_with_fields_of_their_own(make: Make) -> None:
    stage = make(2)
    replies = opened(stage).ask(
        "lease_port", "leased", deadline_s=10, fields=lambda link: {"range": [int(link.name[1:]) + 100]}
    )
    assert {name: reply["port"] for name, reply in replies.items()} == {"h1": 101, "h2": 102}


def test_only_the_chosen_links_are_addressed_and_lost_hosts_never(make: Make) -> None:
    stage = make(3)
    gang = opened(stage)
    gang.link("h1").lost = "silent for 30 s"
    assert set(gang.ask("claim", "claimed", links=gang.links[:2], deadline_s=10)) == {"h2"}
    assert [name for name, host in stage.far.items() if "claim" in host.kinds()] == ["h2"]


def test_a_refusal_has_the_error_class_and_hint_that_the_host_sent(make: Make) -> None:
    stage = make(2)
    stage.far["h2"].answers["claim"] = refusal("claim", "no slot is free", error="slots", hint="wait")
    with pytest.raises(SlotsTaken, match="h2: no slot is free") as caught:
        opened(stage).ask("claim", "claimed", deadline_s=10)
    assert (caught.value.hint, caught.value.hosts) == ("wait", ("h2",))


def test_all_hosts_with_problems_are_named_together(make: Make) -> None:
    stage = make(3)
    gang = opened(stage)
    stage.far["h1"].answers["claim"] = []
    stage.far["h2"].answers["claim"] = refusal("claim", "disk full")
    with pytest.raises(HostNotReady) as caught:
        gang.ask("claim", "claimed", deadline_s=0.2)
    assert caught.value.message == "h1: no answer to claim\nh2: disk full"


def test_a_broken_channel_ends_the_wait_for_its_host(make: Make) -> None:
    stage = make(2)
    gang = opened(stage)
    stage.far["h2"].answers["claim"] = []
    stage.far["h2"].channels[-1].cut("Connection reset by peer")
    began = time.monotonic()
    with pytest.raises(HostNotReady, match="h2: Connection reset by peer"):
        gang.ask("claim", "claimed", deadline_s=60)
    assert time.monotonic() - began < 30


def test_a_host_that_does_not_open_is_named(make: Make) -> None:
    stage = make(2)
    stage.far["h2"].answers["open"] = []
    with pytest.raises(HostNotReady, match="no channel to\nh2: no answer") as caught:
        opened(stage, deadline_s=0.2)
    assert caught.value.hosts == ("h2",)


def test_a_host_that_is_slower_than_one_that_failed_is_not_named(make: Make) -> None:
    """A restart would have retired it too."""
    stage = make(2)

    def cut(*_: object) -> list[bytes]:
        stage.far["h1"].channels[-1].cut("no route to host")
        return []

    stage.far["h1"].answers["open"] = cut
    stage.far["h2"].answers["open"] = []
    with pytest.raises(HostNotReady, match="no channel to\nh1: no route to host\n  ->") as caught:
        opened(stage)
    assert caught.value.hosts == ("h1",)


def test_hosts_that_fail_a_second_apart_are_named_together(make: Make) -> None:
    """One remedy for all of them: a registry without the image tells each host so after some time."""
    stage = make(3)
    gang = opened(stage)
    stage.far["h1"].answers["prepare"] = refusal("prepare", "cannot pull")
    for name in ("h2", "h3"):
        stage.far[name].answers["prepare"] = []
        stage.far[name].answers["withdraw"] = refusal("prepare", "withdrawn", error="withdrawn")
    stage.far["h2"].answers["beat"] = refusal("prepare", "cannot pull")
    with pytest.raises(HostNotReady, match=r"^h1, h2: cannot pull$"):
        gang.ask("prepare", "prepared", deadline_s=60, withdraw=True)
    assert "withdraw" in stage.far["h3"].kinds()


def test_open_channels_of_discovery_are_used(make: Make) -> None:
    stage = make(2)
    given = FakeChannel(stage.far["h1"])
    opened(stage, channels={"h1": given})
    assert stage.far["h1"].channels == [given]
    assert [route.host for route in stage.far.routes] == ["h2"]


@pytest.mark.parametrize("noticed", [True, False], ids=["broken already", "broken at the first order"])
def test_a_channel_of_discovery_that_the_host_has_closed_is_opened_again(make: Make, noticed: bool) -> None:
    """As after a long snapshot of the source."""
    stage = make(2)
    far = stage.far["h1"]
    given = FakeChannel(far)

    def hang_up(_header: Any, _payload: bytes) -> list[bytes]:
        del far.answers["open"]
        given.cut("the channel ended (exit code 0)")
        return []

    if noticed:
        given.cut("the channel ended (exit code 0)")
    else:
        far.answers["open"] = hang_up
    gang = opened(stage, channels={"h1": given})
    assert gang.link("h1").connected
    assert far.channels == [given, gang.link("h1").channel]


def test_an_interruption_ends_the_wait(make: Make) -> None:
    stage = make(1, network="")
    stage.far["h1"].answers["prepare"] = []
    gang = opened(stage, interruption=lambda kind: "stopped before it started" if kind == "prepare" else "")
    with pytest.raises(Interrupted, match="stopped before it started"):
        gang.ask("prepare", "prepared", deadline_s=60)
    assert "withdraw" not in stage.far["h1"].kinds()
    with pytest.raises(Interrupted, match="stopped before it started"):
        gang.ask("prepare", "prepared", deadline_s=60, withdraw=True)
    assert stage.far["h1"].kinds().count("withdraw") == 1, "a host that pulls an image would go on"


def test_a_host_that_is_silent_while_it_prepares_ends_the_wait(make: Make) -> None:
    """The others leave off, and those that send heartbeats are waited for."""
    stage = make(2, network="")
    stage.far["h1"].answers["prepare"] = []
    stage.far["h1"].answers["beat"] = []
    stage.far["h2"].answers["prepare"] = []
    stage.far["h2"].answers["withdraw"] = refusal("prepare", "withdrawn", error="withdrawn")
    gang = opened(stage)
    began = time.monotonic()
    with pytest.raises(
        HostNotReady, match=r"^h1: no answer to prepare, and its last message came [2-9] s ago"
    ) as caught:
        gang.ask("prepare", "prepared", deadline_s=60, silence_s=2.0, withdraw=True)
    assert caught.value.hosts == ("h1",)
    assert time.monotonic() - began < 20
    assert "withdraw" in stage.far["h2"].kinds()


def test_a_heartbeat_returns_the_hosts_newest_uptime(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard renews its lease with it."""
    monkeypatch.setattr(host_links, "BEAT_S", 0.0)
    stage = make(1, network="")
    uptimes = iter([70.5, 80.5])
    stage.far["h1"].answers["beat"] = lambda _header, _payload: [
        encode("beat", guard_gone=False, uptime=next(uptimes, 90.5))
    ]
    gang = opened(stage)
    for _ in range(3):
        gang.keep_alive()
        gang.pump(0)
    beats = [header["seen"] for header, _ in stage.far["h1"].orders if header["t"] == "beat"]
    assert beats == [None, 70.5, 80.5]


@pytest.mark.parametrize(("apart", "expected"), [(0.0, 0.0), (-2.0, 0.0), (-100.0, -95.0), (3600.0, 3600.0)])
def test_a_slow_login_is_no_clock_that_is_wrong(
    make: Make, monkeypatch: pytest.MonkeyPatch, apart: float, expected: float
) -> None:
    """The host reads its clock at any time between the start of ssh and its answer, here 5 s later."""
    stage = make(1, network="")
    gang = opened(stage)
    (link,) = gang.links
    link.asked = 1000.0
    monkeypatch.setattr("ddp_play.run.host_links.time.time", lambda: 1005.0)
    header = {"clock": 1005.0 + apart, "dir": "/state", "secrets": "/shm", "uid": 0}
    monkeypatch.setattr("ddp_play.run.host_links.protocol_problem", lambda _: "")
    gang._on_opened(link, header)
    assert link.clock_offset_s == expected


def test_a_slow_host_has_time_to_open_a_new_channel(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each used to be given up after SILENT_S, so that a host that needs longer for a login never came back."""
    monkeypatch.setattr(host_links, "SILENT_S", 0.1)
    monkeypatch.setattr(host_links, "RECONNECT_S", 0.05)
    monkeypatch.setattr(host_links, "OPENING_S", 1.5)
    stage = make(1, network="")
    gang = opened(stage)
    stage.far["h1"].answers.update({"open": [], "beat": []})

    def channels_after(seconds: float) -> int:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            gang.keep_alive()
            gang.pump(0.01)
        return len(stage.far["h1"].channels)

    assert channels_after(1.0) == 2
    assert channels_after(1.0) == 3, "one that never opens is given up"
