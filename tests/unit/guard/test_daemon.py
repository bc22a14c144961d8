"""The guard process by itself: no controller, no channel, only its place on the host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import daemon, hang_evidence, leases, processes
from ddp_play.guard.run_directory import FROZEN, HostRun, read_json, write_json
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = str(Path(daemon.__file__).parents[1])
LIMITS: dict[str, Any] = {
    "go_wait_s": 30.0,
    "settle_s": 0.2,
    "grace_s": 5.0,
    "failure_grace_s": 1.0,
    "max_duration_s": 0.0,
    "warn_before_s": 0.0,
    "warn_signal": "SIGUSR1",
    "idle_timeout_s": 0.0,
    "patience_s": 0.4,
    "thaw_s": 15.0,
    "lease_s": 0.0,
    "signal": "SIGTERM",
}

BLAME = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:34710"


@contextlib.contextmanager
def guard(root: Path, *scripts: str, **limits: float) -> Iterator[tuple[HostRun, subprocess.Popen[bytes]]]:
    """A guard over one shell script per rank, prepared and waiting for `go`."""
    ranks = [
        {"rank": n, "argv": ["/bin/sh", "-c", script], "env": {"PATH": os.environ["PATH"]}, "workdir": "/"}
        for n, script in enumerate(scripts)
    ]
    with guard_over(root, ranks, agent=None, more=None, **limits) as made:
        yield made


@contextlib.contextmanager
def guard_over(
    root: Path,
    ranks: list[dict[str, Any]],
    *,
    agent: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    **limits: float,
) -> Iterator[tuple[HostRun, subprocess.Popen[bytes]]]:
    """A guard over the ranks of a spec, prepared and waiting for `go`. `agent`: the torchrun that starts them.

    `more`: other fields of the spec.
    """
    place = HostRun(root / "1.h1")
    for directory in (place.control, place.logs):
        directory.mkdir(parents=True)
    write_json(place.spec, {"ranks": ranks, "agent": agent, "limits": {**LIMITS, **limits}, **(more or {})})
    with subprocess.Popen(command(place), start_new_session=True) as process:
        try:
            wait_until(lambda: read_json(place.state))
            yield place, process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(20)


def command(place: HostRun) -> list[str]:
    """The command of a guard."""
    program = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\nfrom guard import daemon, leases\n"
        f"leases.SCOPE = {leases.SCOPE!r}\ndaemon.main({str(place.root)!r})"
    )
    return [sys.executable, "-c", program]


def end(place: HostRun, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait for the guard's end; its last state."""
    assert process.wait(30) == 0
    state = read_json(place.state)
    assert state is not None
    assert state["phase"] == "ended"
    return state


def test_nothing_starts_without_go_and_everything_with_it(tmp_path: Path) -> None:
    with guard(tmp_path, "echo hello; exit 0", "printf '\\377\\n' >&2; exit 3") as (place, process):
        state = read_json(place.state) or {}
        assert (state["phase"], state["ranks"]["0"]["state"]) == ("prepared", "created")
        assert not place.log(0).exists()
        place.order("go")
        rows = end(place, process)["ranks"]
    assert [rows[n]["exit_code"] for n in "01"] == [0, 3]
    assert place.log(0).read_bytes() == b"hello\n"
    assert place.log(1).read_bytes() == b"\xff\n"


def test_a_failure_ends_the_others_of_its_host(tmp_path: Path) -> None:
    with guard(tmp_path, "exit 7", "sleep 100") as (place, process):
        place.order("go")
        state = end(place, process)
    assert state["reason"] == "a rank on this host failed"
    assert state["ranks"]["0"]["stopped"] is False
    assert (state["ranks"]["1"]["stopped"], state["ranks"]["1"]["signal"]) == (True, signal.SIGTERM)


def test_a_rank_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    with guard(tmp_path, "trap '' TERM; echo ready; while :; do sleep 1; done") as (place, process):
        place.order("go")
        wait_until(lambda: place.log(0).exists() and place.log(0).read_bytes() == b"ready\n")
        place.order("stop", {"reason": "enough", "signal": "SIGTERM", "grace_s": 0.3})
        state = end(place, process)
    assert (state["reason"], state["ranks"]["0"]["signal"]) == ("enough", signal.SIGKILL)


def test_children_of_a_rank_do_not_outlive_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with guard(tmp_path, f"setsid sleep 100 & echo $! > {pid_file}; exit 0") as (place, process):
        place.order("go")
        end(place, process)
    pid = int(pid_file.read_text())
    wait_until(lambda: not processes.alive(pid, None))


def test_without_a_start_signal_nothing_stays(tmp_path: Path) -> None:
    """Its controller died while it prepared: nobody will come to clean up."""
    with guard(tmp_path, f"touch {tmp_path}/started", go_wait_s=3.0) as (place, process):
        assert process.wait(30) == 0
    assert not place.root.exists()
    assert not (tmp_path / "started").exists(), "no rank starts because nobody came"


@pytest.mark.parametrize(
    ("limits", "order", "reason"),
    [
        ({}, ("stop", {"reason": "x"}), "stopped before it started"),
        ({}, ("stop-now", {"reason": "x"}), "stopped before it started"),
    ],
)
def test_ranks_that_never_started_have_ended_too(
    tmp_path: Path, limits: dict[str, float], order: tuple[str, dict[str, Any]] | None, reason: str
) -> None:
    """Whoever takes over such a run would otherwise wait for them for ever."""
    with guard(tmp_path, "exit 0", **limits) as (place, process):
        if order:
            place.order(*order)
        state = end(place, process)
    row = state["ranks"]["0"]
    assert state["reason"] == row["detail"] == reason
    assert (row["state"], row["exit_code"], row["stopped"]) == ("exited", None, True)
    assert not place.log(0).exists()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_duration_s": 0.3}, "max_duration reached"),
        ({"lease_s": 0.3}, "no controller for longer than the lease"),
    ],
)
def test_limits_need_no_controller(tmp_path: Path, limits: dict[str, float], reason: str) -> None:
    with guard(tmp_path, "sleep 100", **limits) as (place, process):
        place.order("go")
        state = end(place, process)
    assert state["reason"] == reason
    assert state["ranks"]["0"]["stopped"]


def test_heartbeats_that_lay_in_a_queue_renew_nothing(tmp_path: Path) -> None:
    """They arrive now, and what they prove is old."""
    with guard(tmp_path, "sleep 100", lease_s=1.0) as (place, process):
        began = processes.uptime_s()
        place.order("go")
        while process.poll() is None and processes.uptime_s() - began < 20:
            place.renew_lease(began)
            time.sleep(0.1)
        assert processes.uptime_s() - began < 10
        state = end(place, process)
    assert state["reason"] == "no controller for longer than the lease"


def test_fresh_heartbeats_renew_the_lease(tmp_path: Path) -> None:
    with guard(tmp_path, "sleep 7", lease_s=3.0) as (place, process):
        place.order("go")
        while process.poll() is None:
            place.renew_lease(processes.uptime_s())
            time.sleep(0.1)
        state = end(place, process)
    assert (state["reason"], state["ranks"]["0"]["exit_code"]) == ("", 0)


def test_term_to_the_guard_ends_its_ranks(tmp_path: Path) -> None:
    with guard(tmp_path, "sleep 100") as (place, process):
        place.order("go")
        wait_until(lambda: (read_json(place.state) or {})["phase"] == "running")
        process.terminate()
        state = end(place, process)
    assert state["reason"] == "the guard was asked to end"


def pid_of(place: HostRun, rank: str = "0") -> int:
    return int(wait_until(lambda: (read_json(place.state) or {})["ranks"][rank]["pid"]))


def says(place: HostRun, text: bytes, rank: int = 0) -> None:
    wait_until(lambda: place.log(rank).exists() and text in place.log(rank).read_bytes())


def test_ranks_are_warned_before_the_end(tmp_path: Path) -> None:
    """The warning reaches the rank's first process alone; one that saves and ends by itself was not ended by us."""
    script = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.1; done"
    limits = {"max_duration_s": 30.0, "warn_before_s": 26.0}
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
        wait_until(lambda: hang_evidence.state_of(pid_of(place)) == "T")
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
