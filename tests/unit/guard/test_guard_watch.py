"""What the guard does besides starting and ending: it warns, waits for a cause, wakes and thaws what is frozen."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ddp_play.guard import hang_evidence
from ddp_play.guard.run_files import FROZEN, HostRun, read_json
from tests.unit.guard.test_daemon import end, guard, until

BLAME = "RuntimeError: Connection closed by peer [10.0.0.2]:34710"


def pid_of(place: HostRun, rank: str = "0") -> int:
    return int(until(lambda: (read_json(place.state) or {})["ranks"][rank]["pid"]))


def says(place: HostRun, text: bytes, rank: int = 0) -> None:
    until(lambda: place.log(rank).exists() and text in place.log(rank).read_bytes())


def test_ranks_are_warned_before_the_end(tmp_path: Path) -> None:
    """The warning reaches the rank's first process alone; one that saves and ends by itself was not ended by us."""
    script = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.1; done"
    limits = {"max_duration_s": 30.0, "warn_before_s": 29.5}
    with guard(tmp_path, script, **limits) as (place, process):
        place.order("go")
        state = end(place, process)
    assert place.log(0).read_bytes() == b"ready\nsaved\n"
    assert (state["reason"], state["ranks"]["0"]["exit_code"], state["ranks"]["0"]["stopped"]) == ("", 0, False)


def test_the_guard_waits_longer_for_a_cause_while_all_blame_a_peer(tmp_path: Path) -> None:
    limits = {"settle_s": 0.1, "patience_s": 60.0}
    with guard(tmp_path, f"echo '{BLAME}'; exit 1", "sleep 1; echo why; exit 5", **limits) as (place, process):
        place.order("go")
        state = end(place, process)
    assert [state["ranks"][rank]["exit_code"] for rank in "01"] == [1, 5]
    assert not state["ranks"]["1"]["stopped"]


def test_a_stopped_rank_hears_the_order_to_end(tmp_path: Path) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with guard(tmp_path, script) as (place, process):
        place.order("go")
        says(place, b"ready")
        os.kill(pid_of(place), signal.SIGSTOP)
        until(lambda: hang_evidence.state_of(pid_of(place)) == "T")
        place.order("stop", {"reason": "enough", "signal": "SIGTERM", "grace_s": 30})
        began = time.monotonic()
        state = end(place, process)
    assert time.monotonic() - began < 20
    assert place.log(0).read_bytes().endswith(b"saved\n")
    assert state["ranks"]["0"]["stopped"] is True


def test_frozen_ranks_that_nobody_ends_go_on(tmp_path: Path) -> None:
    """Their controller died between the look and the order to end."""
    with guard(tmp_path, "echo ready; sleep 2; echo more", thaw_s=0.5) as (place, process):
        place.order("go")
        says(place, b"ready")
        pid = pid_of(place)
        os.kill(pid, signal.SIGSTOP)
        place.order(FROZEN)
        state = end(place, process)
        assert place.ordered(FROZEN) is None
    assert state["ranks"]["0"]["exit_code"] == 0
