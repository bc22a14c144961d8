"""Looking at ranks before they are ended, with real processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import hang_evidence, processes
from tests.waiting import wait_until

LOOP = """import faulthandler; faulthandler.enable()
print('ready', flush=True)
def busy():
    while True: sum(range(99))
busy()"""
SERVE = (
    "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
    "print('ready', flush=True)\nimport time; time.sleep(600)"
)

Start = Callable[[list[str]], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A process that has said `ready`; its output is in tmp_path/log."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(words: list[str]) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("wb") as log:
            made.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))
        wait_until(lambda: b"ready" in (tmp_path / "log").read_bytes())
        return made[-1]

    yield begin
    for child in made:
        for pid in [*processes.descendants(child.pid), child.pid]:
            hang_evidence.thaw([pid])
            processes.signal_exactly(pid, processes.start_ticks(pid), signal.SIGKILL)
        child.wait()


def row(pid: int) -> dict[str, Any]:
    return {"state": "running", "pid": pid, "ticks": processes.start_ticks(pid)}


def test_a_busy_rank_is_described_and_frozen(start: Start) -> None:
    child = start([sys.executable, "-c", LOOP])
    seen, texts = hang_evidence.capture({"3": row(child.pid)})
    assert seen["3"]["pid"] == child.pid
    assert seen["3"]["state"] in "RS"
    assert seen["3"]["cpu"] > 0
    assert f"== process {child.pid}: " in texts["3"]
    assert "State:" in texts["3"]
    assert "thread " in texts["3"]
    wait_until(lambda: hang_evidence.state_of(child.pid) == "T")


def test_a_stopped_rank_is_seen_as_such(start: Start) -> None:
    child = start([sys.executable, "-c", LOOP])
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: hang_evidence.state_of(child.pid) == "T")
    seen, _ = hang_evidence.capture({"0": row(child.pid)})
    assert (seen["0"]["state"], seen["0"]["cpu"]) == ("T", 0.0)


def test_frozen_ranks_tell_their_stack_and_end(start: Start, tmp_path: Path) -> None:
    child = start([sys.executable, "-c", LOOP])
    hang_evidence.capture({"0": row(child.pid)})
    assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is True
    assert child.wait(20) == -signal.SIGABRT
    assert b'File "<string>", line 4 in busy' in (tmp_path / "log").read_bytes()
    assert hang_evidence.request_stacks(child.pid, 1) is True  # gone: nothing to do


def test_the_rank_below_its_wrappers_is_asked(start: Start, tmp_path: Path) -> None:
    inner = tmp_path / "own.py"
    inner.write_text(LOOP)
    child = start(["sh", "-c", f"{sys.executable} {inner}; exit 7"])
    main = hang_evidence.main_processes(child.pid)
    assert main == processes.children(child.pid)
    assert main != [child.pid]
    assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is True
    assert child.wait(20) == 7


def test_its_connections_are_listed(start: Start) -> None:
    child = start([sys.executable, "-c", SERVE])
    rows = hang_evidence.sockets([child.pid])
    assert len(rows) == 1
    assert "127.0.0.1:" in rows[0]
    assert "ESTABLISHED send queue 0 receive queue 0" in rows[0]


def test_ranks_that_do_not_run_are_left_out() -> None:
    ranks: dict[str, dict[str, Any]] = {
        "0": {"state": "exited", "pid": 1, "ticks": 1},
        "1": {"state": "running", "pid": None, "ticks": None},
    }
    assert hang_evidence.capture(ranks) == ({}, {})


def test_processes_that_have_ended_do_not_keep_others_from_being_frozen_and_thawed(start: Start) -> None:
    """A rank that is not thawed never ends."""
    child = start([sys.executable, "-c", LOOP])
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    hang_evidence.freeze([gone.pid, child.pid])
    wait_until(lambda: hang_evidence.state_of(child.pid) == "T")
    hang_evidence.thaw([gone.pid, child.pid])
    wait_until(lambda: hang_evidence.state_of(child.pid) in "RS")
    assert hang_evidence.state_of(gone.pid) == "X"


def test_a_rank_that_is_asked_for_stacks_writes_no_core_file(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be as large as the memory of the rank."""
    child = start([sys.executable, "-c", LOOP])
    sent: list[tuple[int, int, tuple[int, int]]] = []
    real = os.kill

    def kill(pid: int, signum: int) -> None:
        sent.append((pid, signum, resource.prlimit(pid, resource.RLIMIT_CORE)))
        real(pid, signum)

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", kill)
        assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is True
    assert sent == [(child.pid, signal.SIGABRT, (0, 0)), (child.pid, signal.SIGCONT, sent[1][2])]


@pytest.mark.parametrize(("error", "permitted"), [(PermissionError, False), (ProcessLookupError, True)])
def test_a_rank_that_may_not_be_signalled_is_told_apart_from_one_that_is_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch, error: type[OSError], permitted: bool
) -> None:
    """The engine has to signal the first one."""
    child = start([sys.executable, "-c", LOOP])

    def kill(_pid: int, signum: int) -> None:
        raise error(1, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", kill)
        assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is permitted


def test_a_process_that_has_the_pid_of_a_rank_now_is_left_alone(start: Start) -> None:
    child = start([sys.executable, "-c", LOOP])
    assert hang_evidence.request_stacks(child.pid, 1) is True
    rows = {"0": {**row(child.pid), "ticks": 1}, "1": {**row(child.pid), "state": "exited"}}
    assert hang_evidence.capture(rows) == ({}, {})
    time.sleep(0.1)
    assert hang_evidence.state_of(child.pid) in "RS"
