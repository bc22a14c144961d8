"""Decisions of the guard before and at the start: whether any rank is started, and what a start that fails leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import daemon
from ddp_play.guard.daemon import NO_START, Guard
from ddp_play.guard.orders import GO, STOP, STOP_NOW
from ddp_play.guard.run_directory import HostRun, read_json
from tests.unit.removal.watched_guard import Watched, asked, guard

if TYPE_CHECKING:
    pass

__all__ = ["guard"]


@pytest.mark.parametrize(
    ("orders", "term", "silent_s", "starts", "reason"),
    [
        ([GO], False, 0.0, True, ""),
        ([GO], False, 31.0, True, ""),
        ([STOP], False, 0.0, False, "stopped before it started"),
        ([STOP_NOW], False, 0.0, False, "stopped before it started"),
        ([], True, 0.0, False, "stopped before it started"),
        ([], False, 31.0, False, NO_START),
    ],
)
def test_ranks_start_by_an_order_and_not_because_nobody_comes(
    guard: Guard,
    monkeypatch: pytest.MonkeyPatch,
    orders: list[str],
    term: bool,
    silent_s: float,
    starts: bool,
    reason: str,
) -> None:
    for name in orders:
        guard.orders.give(name, {"reason": "x"})
    guard.term_received = term
    monkeypatch.setattr(guard.orders, "controller_gone_s", lambda: silent_s)
    assert guard._wait_for_go() is starts
    assert guard.fence.reason == reason


def test_a_guard_waits_for_the_order(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.orders, "controller_gone_s", lambda: guard.limits["go_wait_s"])
    waits: list[float | None] = []
    guard.orders.changed.set()
    monkeypatch.setattr(guard.orders.changed, "wait", waits.append)
    calls: list[bool] = []
    real = guard.orders.read_files

    def read(place: HostRun) -> None:
        calls.append(guard.orders.changed.is_set())
        if len(calls) == 3:
            guard.place.order(GO)
        real(place)

    guard.orders.read_files = read  # type: ignore[method-assign]
    assert guard._wait_for_go() is True
    assert (calls, waits) == ([True, False, False], [daemon.TICK_S] * 2)


def test_without_a_start_no_rank_is_started_and_the_attempt_goes(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.orders, "controller_gone_s", lambda: 31.0)
    guard.run()
    assert not [words for words in asked(guard) if words.startswith("start")]
    assert [(rank.row["state"], rank.row["stopped"], rank.row["detail"]) for rank in guard.ranks] == [
        ("exited", True, NO_START)
    ] * 2
    assert not guard.place.root.exists()


def test_a_stop_before_the_start_leaves_the_attempt_to_the_controller(guard: Guard) -> None:
    guard.orders.give(STOP, {"reason": "x"})
    guard.run()
    state = read_json(guard.place.state) or {}
    assert (state["phase"], state["reason"]) == ("ended", "stopped before it started")
    assert guard.place.spec.exists()


def test_an_error_of_the_loop_ends_the_ranks(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise MemoryError

    guard.orders.give(GO, {})
    monkeypatch.setattr(guard, "_watch", fails)
    with pytest.raises(MemoryError):
        guard.run()
    assert [words for words in asked(guard) if words.startswith("signal")] == ["signal 0", "signal 1"]


def test_no_rank_starts_after_one_that_may_start_late_or_during_a_stop(guard: Guard) -> None:
    first = guard.ranks[0]
    assert isinstance(first, Watched)
    first.late = True
    guard._start()
    assert asked(guard)[:1] != ["start 1"]
    assert guard.ranks[1].row["detail"] == "not started: the engine does not answer"
    assert "start 1" not in asked(guard)
