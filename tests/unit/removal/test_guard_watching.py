"""Decisions of the guard while ranks run: what their ends mean, when the others are stopped, what is thawed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.daemon import Guard
from ddp_play.guard.guard_link import DISK_PROBLEM
from ddp_play.guard.state_file import StateFile
from tests.unit.guard.test_daemon import BLAME, LIMITS
from tests.unit.removal.watched_guard import Watched, asked, guard

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["guard"]


def test_all_ends_are_seen_before_the_engine_is_asked_about_one(guard: Guard) -> None:
    """The patience with an engine counts from the end of a process."""
    guard._notice_ends()
    assert asked(guard) == ["look 0", "look 1", "poll 0", "poll 1"]


@pytest.mark.parametrize(("full", "detail"), [(True, "its log is incomplete: "), (False, "")])
def test_the_end_of_a_rank_is_explained(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: bool, detail: str
) -> None:
    explained: list[tuple[int, list[str]]] = []

    def explain(_witness: Any, lines: list[str], row: dict[str, Any], _addresses: Any, **_: Any) -> None:
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
    after, first = time.monotonic(), guard.fence._fail_at
    assert before + LIMITS[wait] <= first <= after + LIMITS[wait]
    time.sleep(0.02)
    guard._schedule_stop()
    assert guard.fence._fail_at == first, "it counts from the first failure"
    guard.ranks[1].ended(1)
    guard.place.log(1).write_text("ValueError: x")
    guard._schedule_stop()
    assert before + LIMITS["settle_s"] <= guard.fence._fail_at <= after + LIMITS["settle_s"]


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


@pytest.mark.parametrize(
    ("waits_s", "watch_s", "order"),
    [
        (0.0, 60.0, ["look 0", "look 1", "poll 0", "poll 1"]),
        (0.3, 0.2, ["look 0", "look 1", "poll 0", "look 0", "look 1", "poll 1"]),
    ],
)
def test_an_engine_that_holds_up_one_poll_costs_the_other_ranks_no_patience(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, waits_s: float, watch_s: float, order: list[str]
) -> None:
    """Ranks that end during the wait count from then: eight of them took eight waits."""
    monkeypatch.setattr("ddp_play.guard.daemon.WATCH_S", watch_s)
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


def test_a_state_that_has_not_changed_is_not_written_again(guard: Guard) -> None:
    """The loop writes five times per second, also to a disk that all users share."""
    guard.write_state()
    before = guard.place.state.stat().st_ino, guard.place.state.stat().st_mtime_ns
    guard.write_state()
    assert (guard.place.state.stat().st_ino, guard.place.state.stat().st_mtime_ns) == before
    guard.ranks[0].ended(1)
    guard.write_state()
    assert guard.place.state.stat().st_mtime_ns != before[1]


def test_channels_get_each_state_and_a_new_problem_of_the_disk_at_once(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[tuple[str, bool]] = []
    assert guard.control is not None
    with monkeypatch.context() as patched:
        patched.setattr(
            guard.control, "publish", lambda state: sent.append((state["phase"], bool(state[DISK_PROBLEM])))
        )
        guard.write_state()
        assert sent == [("prepared", False)]
        guard.state_file = StateFile(tmp_path / "nowhere" / "state.json")
        guard.write_state()
        assert sent[1:] == [("prepared", False), ("prepared", True)]
    guard.control.close()
    guard.control = None
    guard.publish()
