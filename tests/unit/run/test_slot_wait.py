"""The wait for slots over fake hosts: when it ends, what is told, and that hosts and time are watched meanwhile."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import HostNotReady, Interrupted, NameTaken, SlotsTaken
from ddp_play.guard.protocol import Header, encode
from ddp_play.run import slot_wait
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


def test_a_host_that_names_too_many_runs_is_cut() -> None:
    rows = [{**BIG, "token": str(n)} for n in range(1000)]
    assert len(slot_wait.runs_ahead({"h1": {"ahead": rows}})) == slot_wait.MAX_AHEAD


def test_a_long_queue_is_counted() -> None:
    ahead = [{**BIG, "run": f"r{n}"} for n in range(5)]
    assert slot_wait.position_text(ahead).endswith("run r2 of kim from login2 (waiting for 3 min 20 s), 2 more")
    assert slot_wait.position_text([]) == "first in the queue"


class Clocks:
    """Hosts that answer their clocks."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.links: list[Any] = []
        self.asked: list[Any] = []
        self._answers = {f"h{number}": answer for number, answer in enumerate(answers, 1)}

    def ask(self, kind: str, reply: str, *, deadline_s: float, fields: Callable[[Any], Any]) -> dict[str, Any]:
        self.asked.append((kind, reply, deadline_s, fields(None)))
        return self._answers


def queue_of(hosts: Clocks) -> slot_wait.SlotQueue:
    made: Any = SimpleNamespace(plan=SimpleNamespace(hosts=()))
    unused: Any = None
    gang: Any = hosts
    return slot_wait.SlotQueue(made, gang, unused, unused, unused)


@pytest.mark.parametrize(
    ("answers", "since"),
    [(({"clock": 70.0}, {"clock": "71.5"}, {"clock": 71.0}), 71.5), (({}, {"clock": None}), 0.0)],
)
def test_the_place_is_the_latest_clock(answers: tuple[dict[str, Any], ...], since: float) -> None:
    hosts = Clocks(*answers)
    assert queue_of(hosts).join(Waiting(9.0, None)) == Waiting(9.0, since)
    assert hosts.asked == [("queue", "queued", 30, {"time": None})]


def test_a_run_that_returns_to_the_queue_keeps_its_place() -> None:
    """It waits a moment: the run that was faster must be back in the queue first."""
    hosts = Clocks()
    queue, before = queue_of(hosts), time.monotonic()
    assert queue.join(Waiting(9.0, 5.0)) == Waiting(9.0, 5.0)
    assert hosts.asked == []
    assert before + slot_wait.SETTLE_S <= queue._not_before <= time.monotonic() + slot_wait.SETTLE_S


ROW: dict[str, Any] = {"run": "r", "owner": "kim", "controller": "c1", "need": 1, "waiting_s": 60.0}


def ahead(*tokens: str, **change: Any) -> list[dict[str, Any]]:
    return [{**ROW, "token": token, **change} for token in tokens]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, []),
        ({"h1": {}, "h2": {"ahead": None}}, []),
        ({"h1": {"ahead": ahead("b", "a")}, "h2": {"ahead": ahead("b")}}, [("a", ["h1"]), ("b", ["h1", "h2"])]),
        (
            {"h1": {"ahead": ahead("a")}, "h2": {"ahead": ahead("b", waiting_s=61.0)}},
            [("b", ["h2"]), ("a", ["h1"])],
        ),
    ],
)
def test_runs_ahead_by_age_with_their_hosts(answers: Any, expected: list[Any]) -> None:
    assert [(row["token"], row["hosts"]) for row in slot_wait.runs_ahead(answers)] == expected


def test_a_host_cannot_flood_the_queue() -> None:
    rows = ahead(*(f"{number:04}" for number in range(slot_wait.MAX_AHEAD + 5)))
    assert len(slot_wait.runs_ahead({"h1": {"ahead": rows}})) == slot_wait.MAX_AHEAD


@pytest.mark.parametrize(
    ("num", "text"),
    [
        (0, "first in the queue"),
        (1, "position 2 in the queue, behind R"),
        (3, "position 4 in the queue, behind R, R, R"),
        (4, "position 5 in the queue, behind R, R, R, 1 more"),
        (6, "position 7 in the queue, behind R, R, R, 3 more"),
    ],
)
def test_position_in_words(num: int, text: str) -> None:
    shown = "run r of kim from c1 (waiting for 1 min 0 s)"
    found = slot_wait.position_text(ahead(*map(str, range(num))))
    assert found.replace("1 min 00 s", "1 min 0 s").replace(shown, "R") == text


def test_a_run_without_owner_and_controller() -> None:
    text = slot_wait.position_text(ahead("a", owner="", controller=""))
    assert text.startswith("position 2 in the queue, behind run r of unknown (waiting for ")
    kept = ("run", "owner", "controller", "need", "waiting_s")
    assert slot_wait._public({**ROW, "token": "secret", "hosts": ["h1"]}) == {
        **{name: ROW[name] for name in kept},
        "hosts": ["h1"],
    }


def test_only_hosts_whose_slots_are_taken_say_why() -> None:
    rows: dict[str, Any] = {
        "h1": {"ready": True, "problem": "x"},
        "h2": {"ready": False, "problem": "y"},
        "h3": {"ready": False},
    }
    assert slot_wait.reason_to_wait(rows) == "h2: y\nh3: None"


@pytest.mark.parametrize(
    ("silent_s", "refused", "why"),
    [
        (0.0, None, ""),
        (1800.0, None, ""),
        (1801.0, None, "no answer for 30 min 1 s while the run waited for slots"),
        (0.0, {"message": "no"}, "no"),
        (1801.0, {"message": "no"}, "no"),
    ],
)
def test_when_a_host_is_given_up(silent_s: float, refused: Any, why: str) -> None:
    link: Any = SimpleNamespace(refused=refused, silent_s=lambda: silent_s)
    assert slot_wait.SlotQueue._why_gone(link) == why
