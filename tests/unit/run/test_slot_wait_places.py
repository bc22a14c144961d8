"""Places in the queue for slots: hosts' clocks, runs ahead, their words, and when a host is given up."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.run import slot_wait
from ddp_play.run.attempt_assignment import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

BIG = {"token": "a" * 16, "run": "big", "owner": "kim", "controller": "login2", "need": 4, "waiting_s": 200.0}


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
    link: Any = SimpleNamespace(name="h1", refused=refused, silent_s=lambda: silent_s)
    gone = slot_wait._gone(link)
    assert (gone.host, gone.why) == ("h1", why) if gone else not why
