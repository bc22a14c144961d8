"""The end of ranks whose container engine hangs: guards as real processes, and an engine that answers nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes
from ddp_play.guard.fence import Fence
from ddp_play.guard.orders import STOP, STOP_NOW, Orders
from ddp_play.guard.ranks import Rank
from ddp_play.guard.run_directory import HostRun, read_json
from tests.unit.guard.test_daemon import LIMITS, end, guard_over
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.guard.conftest import Engine

BUSY_S = 2.5  # what a busy machine may add: less than the shortest wait for an engine, 3 s
STUBBORN = "trap '' TERM; while :; do sleep 0.1; done"


@pytest.fixture
def firsts(engine: Engine) -> Iterator[list[subprocess.Popen[bytes]]]:
    """First processes of two containers; only SIGKILL ends the second."""
    made = [subprocess.Popen(["/bin/sh", "-c", script]) for script in ("exec sleep 100", STUBBORN)]
    for number, process in enumerate(made):
        engine.has(f"POST /containers/r{number}/start", b"", 204)
        engine.container(f"r{number}", Pid=process.pid, Running=True)
    yield made
    for process in made:
        process.kill()
        process.wait()


def containers(num_ranks: int, container_id: str = "") -> list[dict[str, Any]]:
    return [{"rank": n, "container": f"r{n}", "container_id": container_id} for n in range(num_ranks)]


def running(place: HostRun) -> bool:
    rows = ((read_json(place.state) or {}).get("ranks") or {}).values()
    return all(row["state"] == "running" for row in rows)


def end_of(process: subprocess.Popen[bytes], timeout_s: float = 30.0) -> float:
    """When it ended (monotonic)."""
    process.wait(timeout_s)
    return time.monotonic()


def test_an_engine_that_hangs_does_not_hold_up_the_lease(
    tmp_path: Path, engine: Engine, firsts: list[subprocess.Popen[bytes]]
) -> None:
    """The first rank ends at once and the engine did not report the exit code; the second is killed in time."""
    with guard_over(tmp_path, containers(2), lease_s=4.0, grace_s=1.0) as (place, process):
        place.order("go")
        wait_until(lambda: running(place))
        engine.awake.clear()
        place.renew_lease(processes.uptime_s())
        began = time.monotonic()
        ended = [end_of(child) - began for child in firsts]
        state = end(place, process)
    assert ended[0] < 4.0 + BUSY_S
    assert ended[1] < 4.0 + 1.0 + BUSY_S
    assert state["reason"] == "no controller for longer than the lease"
    assert "the engine did not report the exit code" in state["ranks"]["0"]["detail"]
    assert all(row["stopped"] for row in state["ranks"].values())
    assert time.monotonic() - began < 15


def test_many_ends_cost_one_wait_for_the_engine(tmp_path: Path, engine: Engine) -> None:
    children = [subprocess.Popen(["/bin/sleep", "100"]) for _ in range(8)]
    for number, child in enumerate(children):
        engine.has(f"POST /containers/r{number}/start", b"", 204)
        engine.container(f"r{number}", Pid=child.pid, Running=True)
    with guard_over(tmp_path, containers(8)) as (place, process):
        place.order("go")
        wait_until(lambda: running(place))
        engine.awake.clear()
        began = time.monotonic()
        place.order("stop", {"reason": "enough", "signal": "SIGTERM", "grace_s": 5})
        for child in children:
            child.wait(10)
        end(place, process)
    assert time.monotonic() - began < 20, "eight waits of three seconds"


def test_an_order_to_stop_ends_the_wait_for_a_start(tmp_path: Path, engine: Engine) -> None:
    """Two minutes is the engine's time for a start. The second container is not started at all."""
    engine.awake.clear()
    with guard_over(tmp_path, containers(2)) as (place, process):
        place.order("go")
        wait_until(lambda: engine.asked)
        place.order("stop", {"reason": "enough", "signal": "SIGTERM", "grace_s": 5})
        began = time.monotonic()
        ended = wait_until(lambda: (read_json(place.state) or {}).get("reason") == "enough" and read_json(place.state))
        assert time.monotonic() - began < 10
        rows = ended["ranks"]
        assert [(rows[n]["state"], rows[n]["stopped"]) for n in "01"] == [("exited", True)] * 2
        assert process.poll() is None, "the engine may still start the container"
        engine.has("DELETE /containers/r0?force=1&v=1", b"", 204)
        engine.awake.set()
        end(place, process)
    assert "POST /containers/r1/start" not in engine.asked


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that is named by the id of a container."""
    base = Path("/sys/fs/cgroup/pids")
    path = (base if base.is_dir() else base.parent) / secrets.token_hex(32)
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield path
    with contextlib.suppress(OSError):
        wait_until(lambda: not (path / "cgroup.procs").read_text())
        path.rmdir()


def test_a_container_that_starts_after_the_stop_is_killed(tmp_path: Path, engine: Engine, group: Path) -> None:
    """An engine that is woken carries out what it was asked long ago."""
    engine.awake.clear()
    with guard_over(tmp_path, containers(1, group.name)) as (place, process):
        place.order("go")
        wait_until(lambda: engine.asked)
        place.order("stop-now", {"reason": "enough"})
        wait_until(lambda: (read_json(place.state) or {}).get("reason") == "enough")
        script = f"echo $$ >{group}/cgroup.procs && exec sleep 100"
        with subprocess.Popen(["/bin/sh", "-c", script]) as late:
            assert late.wait(10) == -signal.SIGKILL
        assert process.poll() is None
        engine.awake.set()
        engine.has("DELETE /containers/r0?force=1&v=1", b"", 204)
        end(place, process)


def test_a_late_container_is_killed_while_others_have_their_grace_period(
    tmp_path: Path, engine: Engine, firsts: list[subprocess.Popen[bytes]], group: Path
) -> None:
    """It would train alone, or beside the next attempt."""
    engine.slow = ("POST /containers/r0/start", "DELETE /containers/r0")
    ranks = [{**rank, "container_id": group.name if rank["rank"] == 0 else ""} for rank in reversed(containers(2))]
    with guard_over(tmp_path, ranks) as (place, process):
        place.order("go")
        wait_until(lambda: "POST /containers/r0/start" in engine.asked)
        place.order("stop", {"reason": "enough", "signal": "SIGTERM", "grace_s": 60})
        wait_until(lambda: (read_json(place.state) or {}).get("reason") == "enough")
        script = f"echo $$ >{group}/cgroup.procs && exec sleep 100"
        with subprocess.Popen(["/bin/sh", "-c", script]) as late:
            try:
                assert late.wait(10) == -signal.SIGKILL
            finally:
                late.kill()
        assert firsts[1].poll() is None, "its grace period is not over"
        firsts[1].kill()
        firsts[1].wait()
        engine.container("r1", Running=False, ExitCode=137)
        engine.has("DELETE /containers/r0?force=1&v=1", b"", 204)
        engine.woken.set()
        end(place, process)


# -- decisions without a process ---


class Recorded(Rank):
    """A rank that keeps what it is sent."""

    def __init__(self, root: Path) -> None:
        super().__init__({"rank": 0, "container": "r0"}, HostRun(root))
        self.sent: list[int] = []
        self.row["state"] = "running"

    def deliver(self, signum: int) -> None:
        if signum != signal.SIGCONT:
            self.sent.append(signum)


@pytest.fixture
def rank(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def fence(rank: Recorded, orders: Orders, **limits: float) -> Fence:
    made = Fence([rank], [rank], {**LIMITS, **limits}, orders)
    made.phase, made._started_at = "running", time.monotonic()
    return made


def test_nothing_is_sent_while_all_is_well(rank: Recorded) -> None:
    made = fence(rank, Orders())
    made.turn()
    assert (rank.sent, made.phase, made.reason) == ([], "running", "")


def test_a_later_stop_can_only_come_earlier(rank: Recorded) -> None:
    orders = Orders()
    made = fence(rank, orders)
    for reason, grace_s in (("first", 5.0), ("second", 60.0)):
        orders.give(STOP, {"reason": reason, "signal": "SIGUSR2", "grace_s": grace_s})
        made.turn()
    assert (rank.sent, made.reason) == ([signal.SIGUSR2], "first")
    orders.give(STOP_NOW, {"reason": "third"})
    made.turn()
    assert (set(rank.sent[1:]), made.reason) == ({signal.SIGKILL}, "first")


def test_a_rank_whose_start_was_under_way_is_stopped_too(rank: Recorded) -> None:
    orders = Orders()
    made = fence(rank, orders)
    rank.row["state"] = "created"
    orders.give(STOP, {"reason": "enough", "signal": "SIGTERM", "grace_s": 60})
    made.turn()
    assert rank.sent == []
    rank.row["state"] = "running"
    made.turn()
    assert rank.sent == [signal.SIGTERM]


def test_a_failure_stops_the_others_at_its_time(rank: Recorded) -> None:
    made = fence(rank, Orders())
    made.stop_at(time.monotonic() + 60)
    made.turn()
    assert rank.sent == []
    made.stop_at(time.monotonic())
    made.turn()
    assert (rank.sent, made.reason) == ([signal.SIGTERM], "a rank on this host failed")


def test_an_error_of_the_fence_ends_the_ranks(rank: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nobody would keep the lease."""
    told: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, signum: told.append(signum))
    made = fence(rank, Orders(), max_duration_s=1.0)
    made._limits.pop("warn_before_s")
    with pytest.raises(KeyError):
        made._run()
    assert (rank.sent, told) == ([signal.SIGKILL], [signal.SIGTERM])


class Unsignallable(Recorded):
    """A rank whose process belongs to another user by now."""

    def deliver(self, signum: int) -> None:
        raise PermissionError(1, "Operation not permitted")


def beside(rank: Recorded, orders: Orders) -> Fence:
    """A fence over a rank that cannot be signalled, and this one."""
    made = fence(rank, orders, max_duration_s=1.0)
    made._units = [Unsignallable(rank.place.root), rank]
    return made


def test_an_error_at_one_rank_spares_no_other(rank: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, signum: told.append(signum))
    made = beside(rank, Orders())
    made._limits.pop("warn_before_s")
    with pytest.raises(KeyError):
        made._run()
    assert (rank.sent, told) == ([signal.SIGKILL], [signal.SIGTERM])


def test_an_error_of_the_kill_itself_still_ends_the_guard(rank: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    made = fence(rank, Orders(), max_duration_s=1.0)
    monkeypatch.setattr(os, "kill", lambda _pid, signum: told.append(signum))
    monkeypatch.setattr(made, "kill", lambda: 1 // 0)
    made._limits.pop("warn_before_s")
    with pytest.raises(ZeroDivisionError):
        made._run()
    assert told == [signal.SIGTERM]


def test_a_rank_that_cannot_be_signalled_takes_no_grace_period_from_the_others(rank: Recorded) -> None:
    orders = Orders()
    made = beside(rank, orders)
    orders.give(STOP, {"reason": "enough", "signal": "SIGTERM", "grace_s": 60})
    made.turn()
    made.turn()
    assert rank.sent == [signal.SIGTERM]
