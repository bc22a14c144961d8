"""Decisions of the guard's loop at one moment: whether ranks start, what their ends mean, when it may leave."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import daemon, hang_evidence, processes
from ddp_play.guard.daemon import NO_START, Guard
from ddp_play.guard.orders import GO, STOP, STOP_NOW
from ddp_play.guard.ranks import Rank
from ddp_play.guard.run_directory import FROZEN, HostRun, read_json, write_json
from ddp_play.guard.state_file import StateFile
from tests.unit.guard.test_daemon import BLAME, LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Watched(Rank):
    """A rank that keeps in which order it was asked."""

    def __init__(self, number: int, place: HostRun, asked: list[str]) -> None:
        super().__init__({"rank": number}, place)
        self.asked = asked
        self.exit_code: int | None = None
        self.late = False
        self.prevented = 0

    def prevent_late_start(self) -> None:
        self.prevented += 1
        self.late = self.prevented < 3

    def start(self) -> None:
        self.asked.append(f"start {self.number}")
        self.row.update(state="running", started=time.time())

    def look(self) -> None:
        self.asked.append(f"look {self.number}")

    def poll(self) -> None:
        self.asked.append(f"poll {self.number}")
        if self.running and self.exit_code is not None:
            self.ended(self.exit_code)

    def deliver(self, signum: int) -> None:
        self.asked.append(f"signal {self.number}")

    @property
    def may_start_late(self) -> bool:
        return self.late


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guard]:
    """A guard in this process with two ranks, which changes nothing of the process."""
    place = HostRun(tmp_path / "1.h1")
    for directory in (place.control, place.logs):
        directory.mkdir(parents=True)
    ranks: list[dict[str, Any]] = [{"rank": number, "argv": ["true"], "env": {}, "workdir": "/"} for number in (0, 1)]
    write_json(place.spec, {"ranks": ranks, "limits": LIMITS})
    made = Guard(place)
    asked: list[str] = []
    made.ranks[:] = [Watched(number, place, asked) for number in (0, 1)]
    made.units = made.ranks
    made.fence._units = made.fence._ranks = made.ranks
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for name in ("become_subreaper", "no_core_files"):
        monkeypatch.setattr(processes, name, lambda: None)
    monkeypatch.setattr(processes, "kill_descendants", lambda *_: 0)
    monkeypatch.setattr(daemon, "reap", lambda _: None)
    yield made
    made.fence.close()
    if made.control is not None:
        made.control.close()


def asked(guard: Guard) -> list[str]:
    rank = guard.ranks[0]
    assert isinstance(rank, Watched)
    return rank.asked


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


def test_all_ends_are_seen_before_the_engine_is_asked_about_one(guard: Guard) -> None:
    """The patience with an engine counts from the end of a process."""
    guard._notice_ends()
    assert asked(guard) == ["look 0", "look 1", "poll 0", "poll 1"]


@pytest.mark.parametrize(("full", "detail"), [(True, "its log is incomplete: "), (False, "")])
def test_the_end_of_a_rank_is_explained(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: bool, detail: str
) -> None:
    explained: list[tuple[int, list[str]]] = []

    def explain(_witness: Any, lines: list[str], row: dict[str, Any], _addresses: Any) -> None:
        explained.append((row["exit_code"], lines))

    monkeypatch.setattr("ddp_play.guard.kernel_log.explain", explain)
    monkeypatch.setattr(guard.kernel_log, "lines", lambda: ["oom-kill"])
    if full:
        guard.state_file = StateFile(tmp_path / "nowhere" / "state.json")
    for rank in guard.ranks:
        rank.start()
    first = guard.ranks[0]
    assert isinstance(first, Watched)
    first.exit_code = 3
    guard._notice_ends()
    guard._notice_ends()
    assert explained == [(3, ["oom-kill"])], "once, and not for the rank that runs"
    assert str(first.row["detail"]).startswith(detail)
    assert bool(first.row["detail"]) is full
    assert guard.ranks[1].row["detail"] == ""


@pytest.mark.parametrize(("log", "wait"), [("ValueError: x", "settle_s"), (BLAME, "patience_s")])
def test_the_others_are_stopped_later_while_all_that_failed_blame_a_peer(guard: Guard, log: str, wait: str) -> None:
    guard._schedule_stop()
    assert guard.fence._fail_at is None, "nobody failed"
    guard.ranks[0].ended(1)
    guard.place.log(0).write_text(log)
    before = time.monotonic()
    guard._schedule_stop()
    first = guard.fence._fail_at
    assert first == pytest.approx(before + LIMITS[wait], abs=0.15)
    time.sleep(0.02)
    guard._schedule_stop()
    assert guard.fence._fail_at == first, "it counts from the first failure"
    guard.ranks[1].ended(1)
    guard.place.log(1).write_text("ValueError: x")
    guard._schedule_stop()
    assert guard.fence._fail_at == pytest.approx(before + LIMITS["settle_s"], abs=0.15)


@pytest.mark.parametrize(("idle_timeout_s", "looks"), [(0.0, []), (60.0, [[7]])])
def test_traffic_is_looked_at_only_for_the_idle_timeout(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, idle_timeout_s: float, looks: list[list[int]]
) -> None:
    seen: list[list[int]] = []
    monkeypatch.setattr(guard.traffic, "look", seen.append)
    guard.limits["idle_timeout_s"] = idle_timeout_s
    guard.ranks[0].row.update(state="running", pid=7)
    guard.ranks[1].row.update(state="exited", pid=8)
    guard._notice_traffic()
    assert seen == looks


def test_ranks_that_stay_frozen_are_thawed_once(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    thawed: list[list[int]] = []
    now = [100.0]
    monkeypatch.setattr(hang_evidence, "thaw", thawed.append)
    monkeypatch.setattr(hang_evidence, "main_processes", lambda pid: [pid + 1] if pid == 7 else [])
    monkeypatch.setattr(daemon, "time", SimpleNamespace(monotonic=lambda: now[0]))
    guard.ranks[0].row.update(state="running", pid=7)
    guard.ranks[1].row.update(state="running", pid=20)
    guard._thaw_abandoned()
    guard.orders.give(FROZEN, {})
    for moment, expected in ((100.0, []), (115.0, []), (115.1, [[8], [20]]), (200.0, [[8], [20]])):
        now[0] = moment
        guard._thaw_abandoned()
        assert thawed == expected
    assert guard.orders.get(FROZEN) is None
    guard.orders.give(FROZEN, {})
    guard._thaw_abandoned()
    guard.fence.phase = "stopping"
    now[0] = 300.0
    guard._thaw_abandoned()
    assert len(thawed) == 2, "the fence ends them"
    guard.fence.phase = "running"


@pytest.mark.parametrize("ends", ["stored", "removed", "term"])
def test_the_last_state_is_offered_until_somebody_has_it(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str
) -> None:
    guard.state_file = StateFile(tmp_path / "later" / "state.json")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        assert guard.state_file.problem
        if len(waits) == 2 and ends == "stored":
            (tmp_path / "later").mkdir()
            guard.state_file._tried = 0.0
        elif len(waits) == 2 and ends == "removed":
            guard.place.root.rename(tmp_path / "cleaned")
        elif len(waits) == 2:
            guard.term_received = True

    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=wait))
    guard._conclude()
    assert len(waits) == 2
    assert guard.state_file.stored is (ends == "stored")
    assert guard._state()["phase"] == "ended"


@pytest.mark.parametrize(("term", "prevented"), [(False, [3, 3]), (True, [0, 0])])
def test_a_guard_stays_until_no_container_can_start_late(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, term: bool, prevented: list[int]
) -> None:
    """Unless it is told to leave: `gc` does the rest."""
    first = guard.ranks[0]
    assert isinstance(first, Watched)
    first.late, guard.term_received = True, term
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
    guard._end()
    assert [rank.prevented for rank in guard.ranks if isinstance(rank, Watched)] == prevented
    assert guard._state()["phase"] == "ended"


def test_what_ranks_forked_gets_a_second_to_end_and_is_killed_then(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    now = [100.0]

    def kill(_root: int, signum: int = signal.SIGKILL) -> int:
        sent.append(signum)
        return 1

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(processes, "kill_descendants", kill)
    monkeypatch.setattr(processes, "descendants", lambda _: [7])
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    guard._end()
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert now[0] == pytest.approx(101.0, abs=0.1)


@pytest.mark.parametrize(
    ("waits_s", "order"),
    [
        (0.0, ["look 0", "look 1", "poll 0", "poll 1"]),
        (0.3, ["look 0", "look 1", "poll 0", "look 0", "look 1", "poll 1"]),
    ],
)
def test_an_engine_that_holds_up_one_poll_costs_the_other_ranks_no_patience(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, waits_s: float, order: list[str]
) -> None:
    """Ranks that end during the wait count from then: eight of them took eight waits."""
    first = guard.ranks[0]
    poll = first.poll

    def slow_poll() -> None:
        poll()
        time.sleep(waits_s)

    monkeypatch.setattr(first, "poll", slow_poll)
    guard._notice_ends()
    assert asked(guard) == order


def test_a_disk_that_was_full_a_moment_ago_is_tried_when_a_rank_has_died(guard: Guard) -> None:
    guard.state_file.problem, guard.state_file._tried = "full", time.monotonic()
    guard._note_full_disk(guard.ranks)
    assert [rank.row["detail"] for rank in guard.ranks] == ["", ""]
