"""Between two attempts of a run its channels stay open, so that its hosts count as busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.errors import HostNotReady
from ddp_play.guard.protocol import Header, encode
from ddp_play.run.presence import Presence
from ddp_play.testing import refusal
from tests.unit.run.conftest import KILLED, OK, Make, Stage, by_attempt, ends_when_told

if TYPE_CHECKING:
    from collections.abc import Callable


def open_channels(stage: Stage, host: str) -> int:
    return sum(not channel.broken for channel in stage.far[host].channels)


def note_at_prepare(stage: Stage, host: str) -> list[int]:
    """The number of the host's open channels at each preparation."""
    found: list[int] = []

    def prepare(_header: Header, _payload: bytes) -> list[bytes]:
        found.append(open_channels(stage, host))
        return [encode("prepared", guard_pid=1)]

    stage.far[host].answers["prepare"] = prepare
    return found


def test_the_channels_of_an_attempt_stay_until_the_next_one_is_prepared(staged: Make) -> None:
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")
    found = note_at_prepare(stage, "h1")
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert found == [1, 2]
    assert [header["stay"] for header, _ in stage.far["h1"].orders if header["t"] == "clean"] == [True, False]
    assert open_channels(stage, "h1") == 0
    assert stage.far["h1"].order("prepare")["spec"]["was_here"] is True


def test_no_channel_stays_to_a_host_that_was_lost(staged: Make) -> None:
    """When it recovers it would send the output of the ended attempt into the logs of the next one."""
    stage = staged(2, 1, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h3", a2=OK)
    found: list[tuple[int, int]] = []

    def prepare(_header: Header, _payload: bytes) -> list[bytes]:
        found.append((open_channels(stage, "h1"), open_channels(stage, "h2")))
        return [encode("prepared", guard_pid=1)]

    stage.far["h3"].answers["prepare"] = prepare
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert found == [(2, 0)]


def test_a_spare_has_not_been_used_before(staged: Make) -> None:
    stage = staged(2, 1, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h3", a2=OK)
    stage.supervisor().run()
    specs = {name: stage.far[name].order("prepare")["spec"] for name in ("h1", "h3")}
    assert {name: (spec["continues"], spec["was_here"]) for name, spec in specs.items()} == {
        "h1": (True, True),
        "h3": (True, False),
    }


def test_heartbeats_during_the_wait_for_a_lost_host_renew_no_lease(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the host's side of a channel would end after 30 s of silence."""
    monkeypatch.setattr("ddp_play.run.presence.BEAT_S", 0.05)
    monkeypatch.setattr("ddp_play.run.fencing.FENCE_MARGIN_S", 3.0)
    monkeypatch.setattr("ddp_play.run.fencing.POLL_S", 0.05)
    stage = staged(2, 1, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})

    def silence(_header: Header, _payload: bytes) -> list[bytes]:
        stage.far["h2"].answers["open"] = []
        return []

    stage.far["h2"].answers["beat"] = silence
    by_attempt(stage, "h3", a2=OK)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    orders = [header for header, _ in stage.far["h1"].orders]
    kinds = [header["t"] for header in orders]
    between = orders[kinds.index("clean") + 1 : kinds.index("open", 1)]
    assert len(between) >= 3
    assert {(header["t"], header.get("seen")) for header in between} == {("beat", None)}


@pytest.mark.parametrize("restarts", [0, 1])
def test_no_channel_is_left_when_the_run_ends(staged: Make, restarts: int) -> None:
    stage = staged(2, restarts=restarts)
    by_attempt(stage, "h1", a1=KILLED)
    ends_when_told(stage, "h2")
    opened: list[int] = []

    def claim_port(header: Header, _payload: bytes) -> list[bytes]:
        opened.append(1)
        if len(opened) > 1:
            return refusal("lease_port", "the disk is full", error="host_not_ready")
        return [encode("leased", port=header["range"][0])]

    stage.far["h1"].answers["lease_port"] = claim_port
    if restarts:
        with pytest.raises(HostNotReady, match="the disk is full"):
            stage.supervisor().run()
    else:
        stage.supervisor().run()
    assert [open_channels(stage, host) for host in ("h1", "h2")] == [0, 0]


def test_without_a_gang_there_is_nothing_to_keep() -> None:
    presence = Presence()
    for act in (presence.keep, presence.leave, presence.close):
        call: Callable[[], None] = act
        call()
