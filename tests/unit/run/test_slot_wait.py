"""The wait for slots over fake hosts: when it ends, what is told, and that hosts and time are watched meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import HostNotReady, Interrupted, NameTaken, SlotsTaken
from ddp_play.guard.protocol import Header, encode
from ddp_play.run.attempt_assignment import Waiting
from ddp_play.testing import refusal
from tests.unit.run.conftest import OK, Make, Stage, done

if TYPE_CHECKING:
    from collections.abc import Callable

TAKEN = "0 of 1 slots free and 1 needed; held by run night-1 of kim"
RESERVED = "1 of 1 slots free and 1 needed; reserved for runs that have waited longer"
BIG = {"token": "a" * 16, "run": "big", "owner": "kim", "controller": "login2", "need": 4, "waiting_s": 200.0}
OLD = {"token": "b" * 16, "run": "old", "owner": "lee", "controller": "", "need": 1, "waiting_s": 4000.0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.slot_wait.POLL_S", 0.02)
    monkeypatch.setattr("ddp_play.run.slot_wait.TICK_S", 0.01)


def not_ready(problem: str, *ahead: dict[str, Any]) -> list[bytes]:
    return [encode("queued", clock=70.0, ready=False, problem=problem, ahead=list(ahead))]


def queue(stage: Stage, host: str, *answers: list[bytes]) -> None:
    """What a host answers: to the first query its clock, then one after the other, then that it is the run's turn."""
    left = list(answers)

    def answer(header: Header, _payload: bytes) -> list[bytes]:
        if header["time"] is None:
            return [encode("queued", clock=70.0 if host == "h1" else 71.5, ready=False)]
        return left.pop(0) if left else [encode("queued", clock=72.0, ready=True)]

    stage.far[host].answers["queue"] = answer


@pytest.fixture
def waited(make: Make) -> Callable[..., Stage]:
    """Two hosts whose ranks end well, and what h1 and h2 answer to a run that waits."""

    def build(h1: tuple[list[bytes], ...] = (), h2: tuple[list[bytes], ...] = ()) -> Stage:
        stage = make(2)
        for name, answers in (("h1", h1), ("h2", h2)):
            done(stage, name, **OK)
            queue(stage, name, *answers)
        return stage

    return build


def run(stage: Stage, seconds: float = 60.0, since: float | None = None) -> RunStatus:
    return stage.supervisor(waiting=Waiting(time.monotonic() + seconds, since)).run().status


def test_nobody_waits_and_slots_are_free(waited: Callable[..., Stage]) -> None:
    stage = waited()
    assert run(stage) is RunStatus.SUCCEEDED
    assert stage.events("waiting") == []
    assert stage.far["h1"].kinds().count("claim") == 1
    orders = [stage.far[name].order("queue") for name in ("h1", "h2")]
    assert [(order["time"], order["host"], order["need"]) for order in orders] == [(71.5, "h1", 1), (71.5, "h2", 1)], (
        "one place on all hosts: the latest of their clocks"
    )


def test_a_run_waits_until_it_is_its_turn_on_all_hosts(waited: Callable[..., Stage]) -> None:
    stage = waited((not_ready(TAKEN),) * 3, (not_ready(RESERVED, BIG),) * 5)
    assert run(stage) is RunStatus.SUCCEEDED
    first, second = stage.events("waiting")
    assert first["reason"] == (
        f"h1: {TAKEN}\nh2: {RESERVED}; position 2 in the queue, behind run big of kim from login2 "
        "(waiting for 3 min 20 s)"
    )
    assert (first["position"], first["ahead"]) == (
        2,
        [{**{key: value for key, value in BIG.items() if key != "token"}, "hosts": ["h2"]}],
    )
    assert second["reason"].startswith(f"h2: {RESERVED}"), "told once for each change"
    assert stage.far["h1"].kinds().count("prepare") == 1
    assert stage.far["h1"].kinds().count("claim") == 2, "another run may have taken the name meanwhile"
    assert stage.document["queue"] is None


def test_a_name_that_was_taken_during_the_wait(waited: Callable[..., Stage]) -> None:
    stage = waited((not_ready(TAKEN),))

    def claim(_header: Header, _payload: bytes) -> list[bytes]:
        late = stage.far["h1"].kinds().count("claim") > 1
        return refusal("claim", "run night of kim is running", error="name_taken") if late else [encode("claimed")]

    stage.far["h1"].answers["claim"] = claim
    with pytest.raises(NameTaken):
        run(stage)
    assert "prepare" not in stage.far["h1"].kinds()


def test_the_wait_ends_with_its_time(waited: Callable[..., Stage]) -> None:
    stage = waited((not_ready(TAKEN, OLD, BIG),) * 1000)
    with pytest.raises(SlotsTaken, match=f"h1: {TAKEN}") as caught:
        run(stage, 0.2)
    assert caught.value.exit_code == 75
    assert caught.value.hosts == ("h1",)
    assert "position 3 in the queue, behind run old of lee (waiting for 1 h 6 min), run big" in caught.value.message
    assert stage.far["h1"].kinds()[-1] == "bye", "the ticket goes with the channel"
    assert stage.document["queue"] is None


def test_a_stop_request_ends_the_wait(waited: Callable[..., Stage]) -> None:
    stage = waited((not_ready(TAKEN),) * 1000)
    write_json(stage.paths.control / "stop", {"reason": "enough"})
    with pytest.raises(Interrupted, match="stopped while it waited for slots"):
        run(stage)
    assert not {"fetch", "prepare", "clean"} & set(stage.far["h1"].kinds())


def test_a_second_try_waits_until_the_others_are_back(
    waited: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.slot_wait.SETTLE_S", 0.3)
    stage = waited()
    began = time.monotonic()
    assert run(stage, since=12.0) is RunStatus.SUCCEEDED
    assert time.monotonic() - began > 0.3
    assert {order["time"] for order, _ in stage.far["h1"].orders if order["t"] == "queue"} == {12.0}


def test_a_channel_that_breaks_is_opened_again_and_keeps_the_place(
    waited: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.05)
    stage = waited()
    healthy: Any = stage.far["h2"].answers["queue"]

    def breaks(header: Header, payload: bytes) -> list[bytes]:
        if header["time"] is not None and len(stage.far["h2"].channels) == 1:
            stage.far["h2"].channels[0].close("the network is away")
            return []
        return list(healthy(header, payload))

    stage.far["h2"].answers["queue"] = breaks
    assert run(stage) is RunStatus.SUCCEEDED
    assert len(stage.far["h2"].channels) == 2
    assert stage.far["h2"].order("queue")["time"] == 71.5


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refusal("queue", "Too many open files"), "h2: Too many open files"),
        ([], "h2: no answer for 0 s while the run waited for slots"),
    ],
    ids=["refusal", "silence"],
)
def test_a_host_that_is_gone_for_too_long(
    waited: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, answer: list[bytes], message: str
) -> None:
    stage = waited((not_ready(TAKEN),) * 1000, (not_ready(TAKEN), *[answer] * 1000))
    if not answer:
        monkeypatch.setattr("ddp_play.run.slot_wait.UNREACHABLE_S", 0.3)
        stage.far["h2"].answers["beat"] = []
    with pytest.raises(HostNotReady, match=message) as caught:
        run(stage)
    assert caught.value.hosts == ("h2",)


def test_a_host_that_was_put_into_quarantine_meanwhile_ends_the_wait_with_the_remedy(
    waited: Callable[..., Stage],
) -> None:
    refused = refusal("queue", "the host takes no new runs: in quarantine", hint="mend it")
    stage = waited((not_ready(TAKEN), refused))
    with pytest.raises(HostNotReady, match="h1: the host takes no new runs: in quarantine") as caught:
        run(stage)
    assert (caught.value.hint, caught.value.hosts) == ("mend it", ("h1",))


def test_a_run_that_waits_shows_its_place_in_run_json(waited: Callable[..., Stage]) -> None:
    stage = waited()
    seen: list[Any] = []

    def answer(header: Header, _payload: bytes) -> list[bytes]:
        seen.append((stage.document.get("status"), stage.document.get("queue")))
        if len(seen) > 3:
            return [encode("queued", ready=True)]
        return not_ready(RESERVED, BIG) if header["time"] is not None else [encode("queued", clock=1.0, ready=False)]

    stage.far["h1"].answers["queue"] = answer
    assert run(stage) is RunStatus.SUCCEEDED
    status, place = seen[2]
    assert (status, place["position"], place["ahead"][0]["run"]) == ("waiting", 2, "big")
