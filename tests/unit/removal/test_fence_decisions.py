"""Decisions of the fence at each moment: whom it signals, with which signal, and when it kills."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes
from ddp_play.guard.fence import KILL_AGAIN_S, REST_S, TURN_S, Fence
from ddp_play.guard.orders import STOP, STOP_NOW, Orders
from tests.unit.guard.test_daemon import LIMITS
from tests.unit.guard.test_fence import Recorded, fence

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time of the fence; tests change it."""
    now = [1000.0]
    monkeypatch.setattr("ddp_play.guard.fence.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def rank(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def test_a_fence_that_has_not_begun_ends_ranks_only_by_order(rank: Recorded) -> None:
    made = Fence([rank], [rank], {**LIMITS, "max_duration_s": 0.001, "lease_s": 0.001}, Orders())
    made.turn()
    assert (made.phase, made.reason, made.stopping, rank.sent) == ("prepared", "", False, [])


@pytest.mark.parametrize(
    ("limits", "age_s", "sent"),
    [
        ({"max_duration_s": 60.0}, 60.0, []),
        ({"max_duration_s": 60.0}, 60.1, [signal.SIGUSR2]),
        ({"max_duration_s": 0.0}, 1e9, []),
    ],
)
def test_the_time_limit_counts_from_the_start_and_0_is_none(
    rank: Recorded, clock: list[float], limits: dict[str, Any], age_s: float, sent: list[int]
) -> None:
    made = fence(rank, Orders(), signal="SIGUSR2", warn_before_s=0.0, **limits)  # type: ignore[arg-type]
    clock[0] += age_s
    made.turn()
    assert rank.sent == sent
    assert made.reason == ("max_duration reached" if sent else "")


@pytest.mark.parametrize(("lease_s", "gone_s", "sent"), [(5.0, 4.0, []), (5.0, 6.0, [signal.SIGTERM]), (0.0, 1e6, [])])
def test_the_lease_counts_from_the_controllers_last_news_and_0_is_none(
    rank: Recorded, monkeypatch: pytest.MonkeyPatch, lease_s: float, gone_s: float, sent: list[int]
) -> None:
    orders = Orders()
    monkeypatch.setattr(orders, "controller_gone_s", lambda: gone_s)
    made = fence(rank, orders, lease_s=lease_s)
    made.turn()
    assert rank.sent == sent
    assert made.reason == ("no controller for longer than the lease" if sent else "")


def test_a_warning_comes_once_and_before_the_time_limit(rank: Recorded, clock: list[float], tmp_path: Path) -> None:
    """Ranks that have ended, and the launcher that is no rank, get none."""
    launcher, ended = Recorded(tmp_path), Recorded(tmp_path)
    ended.row["state"] = "exited"
    limits = {**LIMITS, "max_duration_s": 60.0, "warn_before_s": 10.0, "warn_signal": "SIGUSR1"}
    made = Fence([launcher], [ended, rank], limits, Orders())
    made.phase, made._started_at = "running", clock[0]
    for age_s, sent in ((49.0, []), (50.0, []), (50.1, [signal.SIGUSR1]), (55.0, [signal.SIGUSR1])):
        clock[0] = 1000.0 + age_s
        made.turn()
        assert rank.sent == sent
    assert (made.phase, launcher.sent, ended.sent, rank.signalled) == ("running", [], [], False)
    clock[0] = 1060.1
    made.turn()
    assert made.phase == "stopping"
    assert launcher.sent == [signal.SIGTERM], "the launcher passes it on"


def test_ranks_are_killed_after_the_grace_period_and_again(rank: Recorded, clock: list[float]) -> None:
    """A signal through the engine may not arrive."""
    orders = Orders()
    made = fence(rank, orders)
    orders.give(STOP, {"reason": "enough", "signal": "SIGUSR2", "grace_s": 5.0})
    for after_s, sent in (
        (0.0, [signal.SIGUSR2]),
        (4.9, [signal.SIGUSR2]),
        (5.0, [signal.SIGUSR2, signal.SIGKILL]),
        (5.0 + KILL_AGAIN_S / 2, [signal.SIGUSR2, signal.SIGKILL]),
        (5.0 + KILL_AGAIN_S, [signal.SIGUSR2, signal.SIGKILL, signal.SIGKILL]),
    ):
        clock[0] = 1000.0 + after_s
        made.turn()
        assert rank.sent == sent
    assert made.stopping


@pytest.mark.parametrize(
    ("order", "signum", "grace_s", "reason"),
    [
        ({}, signal.SIGTERM, 30.0, "stopped"),
        ({"signal": "SIGNONSENSE", "grace_s": 7}, signal.SIGTERM, 7.0, "stopped"),
        ({"signal": "SIGINT", "grace_s": 0.5, "reason": "x"}, signal.SIGINT, 0.5, "x"),
    ],
)
def test_an_order_to_stop(
    rank: Recorded, clock: list[float], order: dict[str, Any], signum: int, grace_s: float, reason: str
) -> None:
    orders = Orders()
    made = fence(rank, orders)
    orders.give(STOP, order)
    made.turn()
    assert (rank.sent, made.reason) == ([signum], reason)
    clock[0] = 1000.0 + grace_s - 0.01
    made.turn()
    assert rank.sent == [signum]
    clock[0] = 1000.0 + grace_s
    made.turn()
    assert rank.sent == [signum, signal.SIGKILL]


def test_an_order_is_carried_out_once(rank: Recorded, clock: list[float]) -> None:
    orders = Orders()
    made = fence(rank, orders)
    told: list[str] = []
    made.tell = lambda: told.append(made.reason)
    orders.give(STOP_NOW, {})
    made.turn()
    assert (set(rank.sent), made.reason, told) == ({signal.SIGKILL}, "stopped now", ["stopped now"])
    before = list(rank.sent)
    orders.give(STOP, {"reason": "too late", "signal": "SIGTERM", "grace_s": 0.0})
    made.turn()
    assert (rank.sent, told) == (before, ["stopped now"])


def test_a_guard_that_is_asked_to_end_stops_its_ranks_once(rank: Recorded, clock: list[float]) -> None:
    made = fence(rank, Orders(), failure_grace_s=2.0)
    made.term_received = True
    made.turn()
    assert (rank.sent, made.reason, made.term_received) == ([signal.SIGTERM], "the guard was asked to end", False)
    made.turn()
    assert rank.sent == [signal.SIGTERM]
    clock[0] += 2.0
    made.turn()
    assert rank.sent == [signal.SIGTERM, signal.SIGKILL]


def test_a_guard_that_is_asked_to_end_does_not_wait_for_the_grace_period_of_an_order(
    rank: Recorded, clock: list[float]
) -> None:
    orders = Orders()
    made = fence(rank, orders, failure_grace_s=2.0)
    orders.give(STOP, {"reason": "enough", "signal": "SIGTERM", "grace_s": 60.0})
    made.turn()
    made.term_received = True
    made.turn()
    clock[0] += 2.0
    made.turn()
    assert (rank.sent[-1], made.reason, made.term_received) == (signal.SIGKILL, "enough", False)


def test_a_later_stop_with_a_shorter_grace_period_keeps_the_first_reason(rank: Recorded, clock: list[float]) -> None:
    made = fence(rank, Orders())
    made.stop("first", signum=signal.SIGTERM, grace_s=60.0)
    for grace_s, sent in ((60.0, []), (90.0, []), (5.0, [signal.SIGINT])):
        made.stop("later", signum=signal.SIGINT, grace_s=grace_s)
        assert rank.sent == [signal.SIGTERM, *sent]
    assert made.reason == "first"
    clock[0] += 5.0
    made.turn()
    assert rank.sent == [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]


@pytest.mark.parametrize(("container", "spared"), [("r0", True), (None, False)])
def test_killing_ends_what_processes_forked_and_no_child_of_the_guard_next_to_containers(
    rank: Recorded, monkeypatch: pytest.MonkeyPatch, container: str | None, spared: bool
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(processes, "kill_descendants", killed.append)
    rank.spec["container"] = container
    fence(rank, Orders()).kill()
    assert rank.sent == [signal.SIGKILL]
    assert killed == ([] if spared else [os.getpid()])


@pytest.mark.parametrize(
    ("fail_in_s", "kill_in_s", "pause_s"),
    [(None, None, REST_S), (60.0, None, REST_S), (0.05, None, 0.05), (-1.0, None, 0.01), (0.05, 60.0, TURN_S)],
)
def test_the_fence_looks_again_in_time(
    rank: Recorded, clock: list[float], fail_in_s: float | None, kill_in_s: float | None, pause_s: float
) -> None:
    made = fence(rank, Orders())
    if fail_in_s is not None:
        made.stop_at(clock[0] + fail_in_s)
    if kill_in_s is not None:
        made.stop("x", signum=signal.SIGTERM, grace_s=kill_in_s)
    assert made._pause_s() == pytest.approx(pause_s)


@pytest.mark.parametrize(
    ("limits", "age_s", "gone_s", "pause_s"),
    [
        ({"max_duration_s": 60.0}, 58.0, 0.0, 2.0),
        ({"max_duration_s": 60.0}, 10.0, 0.0, REST_S),
        ({"max_duration_s": 60.0, "warn_before_s": 20.0}, 37.0, 0.0, 3.0),
        ({"lease_s": 30.0}, 0.0, 29.0, 1.0),
        ({"lease_s": 30.0}, 0.0, 31.0, 0.01),
        ({"lease_s": 0.0}, 0.0, 31.0, REST_S),
    ],
)
def test_no_limit_is_reached_while_the_fence_rests(
    rank: Recorded,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, Any],
    age_s: float,
    gone_s: float,
    pause_s: float,
) -> None:
    orders = Orders()
    monkeypatch.setattr(orders, "controller_gone_s", lambda: gone_s)
    made = fence(rank, orders, **{"max_duration_s": 0.0, "warn_before_s": 0.0, "lease_s": 0.0, **limits})
    clock[0] += age_s
    assert made._pause_s() == pytest.approx(pause_s)


def test_a_failure_wakes_the_fence(rank: Recorded) -> None:
    orders = Orders()
    fence(rank, orders).stop_at(0.0)
    assert orders.changed.is_set()


def test_the_thread_keeps_the_time_limit_and_ends_when_it_is_closed(rank: Recorded) -> None:
    unused = Fence([rank], [rank], LIMITS, Orders())
    unused.close()  # nothing to end before `begin`
    assert unused._thread.daemon, "a guard that ends after an error does not wait for it"
    made = Fence([rank], [rank], {**LIMITS, "max_duration_s": 0.3, "signal": "SIGTERM"}, Orders())
    began = time.monotonic()
    made.begin()
    assert made.phase == "running"
    while not rank.sent and time.monotonic() - began < 10:
        time.sleep(0.02)
    assert rank.sent[0] == signal.SIGTERM
    assert time.monotonic() - began >= 0.3
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "fence"]


def test_an_order_wakes_the_thread(rank: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.guard.fence.TURN_S", 60.0)
    orders = Orders()
    made = Fence([rank], [rank], LIMITS, orders)
    made.begin()
    began = time.monotonic()
    orders.give(STOP_NOW, {"reason": "enough"})
    while not rank.sent and time.monotonic() - began < 10:
        time.sleep(0.02)
    made.close()
    assert signal.SIGKILL in rank.sent
    assert time.monotonic() - began < 10


def test_the_thread_does_not_spin(rank: Recorded) -> None:
    """It runs for days next to ranks that need the CPU; also after an order."""
    turns: list[None] = []
    orders = Orders()
    made = Fence([rank], [rank], LIMITS, orders)
    real = made.turn
    made.turn = lambda: (turns.append(None), real())[1]  # type: ignore[method-assign, func-returns-value]
    orders.give("frozen", {})
    made.begin()
    time.sleep(3 * TURN_S)
    made.close()
    assert 1 <= len(turns) <= 10
