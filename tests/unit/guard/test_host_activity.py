"""What runs on this host and how busy it is: guards of real processes, slots that they hold, and who may see what."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import host_activity, leases
from ddp_play.guard.host_activity import (
    HostActivity,
    Usage,
    children_of,
    gpu_utilization,
    holders,
    usage_below,
    usages,
)
from ddp_play.guard.run_directory import user_name
from ddp_play.guard.running_guards import guards
from ddp_play.run.host_frames import checked_answer
from tests.waiting import wait_until

# A process with the command line of a guard that holds a slot, and burns CPU in a child.
GUARD = (
    "import subprocess, sys; sys.path.insert(0, {sources!r})\n"
    "from guard import leases; leases.SCOPE = {scope!r}\n"
    "held = leases.hold('slot-1', leases.slot_scope()).answer()\n"
    "rank = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
    "print(rank.pid, flush=True); sys.stdin.read(); rank.kill()\n"
)
SOURCES = str(Path(leases.__file__).parents[1])


pytestmark = pytest.mark.usefixtures("patient_readings")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The directory of a run's first attempt."""
    found = tmp_path / f"night-{secrets.token_hex(4)}.0123456789abcdef" / "1.h1"  # others may run here too
    found.mkdir(parents=True)
    return found


@contextlib.contextmanager
def guard_of(place: Path) -> Iterator[tuple[int, int]]:
    """A guard and its rank: pids."""
    program = GUARD.format(sources=SOURCES, scope=leases.SCOPE)
    words = [sys.executable, "-c", program, "x.pyc", "guard", str(place)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rank = int(process.stdout.readline())
        try:
            yield process.pid, rank
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def write(place: Path, rank: int) -> None:
    """Spec and state of the run."""
    (place / "spec.json").write_text(json.dumps({"owner": "kim"}))
    row = {"state": "running", "pid": rank}
    (place / "state.json").write_text(json.dumps({"phase": "running", "ranks": {"0": row, "1": {"state": "exited"}}}))


def cpu_below(pid: int) -> float:
    """CPU time of a process and of all below it."""
    known = usages()
    return usage_below(known, children_of(known), pid).cpu_s


def run_of(answer: dict[str, Any], pid: int) -> dict[str, Any]:
    """The row of the guard's run."""
    (run,) = [row for row in answer["runs"] if row["run"] == guards()[pid].run_id]
    return run  # type: ignore[no-any-return]


def test_a_run_with_its_slots_and_usage(place: Path) -> None:
    with guard_of(place) as (pid, rank):
        write(place, rank)
        activity = HostActivity()
        first = activity.read()
        assert "cpu" not in first, "a rate needs two readings"
        began = time.monotonic()
        used_s = cpu_below(pid)
        wait_until(lambda: cpu_below(pid) > used_s + 0.1, timeout_s=30)
        second = activity.read()
        run = run_of(second, pid)
    assert run["unreadable"] == ""
    assert (run["token"], run["attempt"], run["phase"]) == ("0123456789abcdef", 1, "running")
    assert run["ranks"] == {"running": 1, "exited": 1}
    assert run["unreadable"] == ""
    assert run["owner"] == "kim" if os.geteuid() == 0 else f"{user_name(os.geteuid())} (as kim)"
    assert run["slots"] == ["slot-1"]
    assert second["slots_of_others"] == []
    assert 0 < run["cpu"] <= 1.5
    assert run["memory"] > 1 << 20
    assert 0 <= run["age_s"] < 60 + time.monotonic() - began
    assert second["cpu"] > 0


def test_a_run_of_another_user_is_seen_as_far_as_it_is_visible(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = user_name(os.geteuid())
    with guard_of(place) as (pid, rank):
        write(place, rank)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        run = run_of(HostActivity().read(), pid)
    assert (run["owner"], run["user"], run["slots"]) == (me, me, ["slot-1"])
    assert (run["phase"], run["ranks"], run["token"]) == ("", {}, "")
    assert run["unreadable"] == f"private to {me}"


@pytest.mark.parametrize("state", [None, "torn", '{"ranks": 3}', '{"phase": 5, "ranks": {"0": 3}}'])
def test_a_state_that_is_no_state(place: Path, state: str | None) -> None:
    if state is not None:
        (place / "state.json").write_text(state)
    with guard_of(place) as (pid, _rank):
        run = run_of(HostActivity().read(), pid)
    assert run["ranks"] == {}


@pytest.mark.parametrize("name", ["\u00b2", "9" * 5000, "1" * 25])
def test_a_process_that_poses_as_a_guard_does_not_hide_the_host(place: Path, name: str) -> None:
    with guard_of(place.parent / name) as (pid, _rank):
        answer = HostActivity().read()
        run = run_of(answer, pid)
    assert run["attempt"] == 0
    assert len(run["unreadable"]) <= 200
    checked_answer("activity", json.loads(json.dumps(answer)))


def test_texts_of_such_a_process_are_cut(place: Path) -> None:
    rows = {str(number): {"state": "x" * 50 + str(number)} for number in range(20_000)}
    (place / "state.json").write_text(json.dumps({"phase": "y" * 1_000_000, "ranks": rows}))
    (place / "spec.json").write_text(json.dumps({"owner": "z" * 1_000_000}))
    with guard_of(place) as (pid, _rank):
        run = run_of(HostActivity().read(), pid)
    assert len(json.dumps(run)) < 2000


def test_a_slot_that_no_guard_holds() -> None:
    lease = leases.hold("slot-7", leases.slot_scope())
    assert lease is not None
    with lease.answer():
        assert holders() == {"slot-7": os.getpid()}
        assert HostActivity().read()["slots_of_others"] == ["slot-7"]
    assert holders() == {}


def test_the_load_of_a_host() -> None:
    activity = HostActivity()
    first, second = activity.read(), activity.read()
    assert 0 < first["memory"] < first["memory_total"]
    assert "cpu" not in first
    assert second["cpu"] >= 0


def test_utilization_of_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '97\\n[N/A]\\n0\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert gpu_utilization() == [97.0, None, 0.0]
    monkeypatch.setattr(host_activity, "GPU_DRIVER", str(program))
    assert HostActivity().read()["gpus"] == [97.0, None, 0.0]
    program.write_text("#!/bin/sh\nexit 9\n")
    assert "gpus" not in HostActivity().read()


def test_a_gpu_that_holds_nvidia_smi_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What hangs in the driver cannot be killed: a process more every three seconds would remain."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho >> {tmp_path}/asked\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(host_activity, "GPU_DRIVER", str(program))
    monkeypatch.setattr(host_activity, "GPU_S", 1.0)
    activity = HostActivity()
    for _ in range(3):
        assert "gpus" not in activity.read()
    assert (tmp_path / "asked").read_text() == "\n"
    monkeypatch.setattr(host_activity, "GPU_PAUSE_S", 0.0)
    later = HostActivity()
    later.read()
    program.write_text("#!/bin/sh\necho 97\n")
    assert later.read()["gpus"] == [97.0], "asked again after a while"


def test_usage_of_a_family_of_processes() -> None:
    known = {
        1: (0, Usage(100.0, 1)),
        5: (1, Usage(1.0, 10)),
        6: (5, Usage(2.0, 20)),
        7: (6, Usage(4.0, 40)),
        8: (1, Usage(8.0, 80)),
    }
    children = children_of(known)
    assert usage_below(known, children, 5) == Usage(7.0, 70)
    assert usage_below(known, children, 5, 8, 6, 99) == Usage(15.0, 150), "each process once"
    assert usage_below({5: (5, Usage(1.0, 1))}, {5: [5]}, 5) == Usage(1.0, 1), (
        "a loop, as of processes that were read at different times"
    )
    assert usage_below({}, {}) == Usage(0, 0)
