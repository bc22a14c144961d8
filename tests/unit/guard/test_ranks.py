"""Ranks as real child processes."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes, ranks, secret_files
from ddp_play.guard.container_rank import make
from ddp_play.guard.ranks import ProcessRank, Rank
from ddp_play.guard.run_directory import HostRun
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "runs" / "night" / "1.h1")
    made.logs.mkdir(parents=True)
    return made


def process(place: HostRun, *argv: str, **more: Any) -> ProcessRank:
    rank = make({"rank": 0, "argv": list(argv), "env": {"PATH": os.environ["PATH"]}, "workdir": "/", **more}, place)
    assert isinstance(rank, ProcessRank)
    return rank


class Recorded(Rank):
    """A rank that keeps the signals for it."""

    def __init__(self, place: HostRun) -> None:
        super().__init__({"rank": 3}, place)
        self.sent: list[int] = []

    def deliver(self, signum: int) -> None:
        self.sent.append(signum)


def until_ended(rank: Rank) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    while rank.running and time.monotonic() < deadline:
        ranks.reap([rank])
        rank.poll()
        time.sleep(0.01)
    assert rank.row["state"] == "exited"
    return rank.row


@pytest.mark.parametrize(
    ("script", "code", "signum", "failed"),
    [("exit 0", 0, None, False), ("exit 3", 3, None, True), ("kill -9 $$", 137, 9, True)],
)
def test_the_end_of_a_process(place: HostRun, script: str, code: int, signum: int | None, failed: bool) -> None:
    rank = process(place, "/bin/sh", "-c", f"echo to out; echo to err >&2; {script}")
    assert (rank.running, rank.failed) == (False, False)
    rank.start()
    row = until_ended(rank)
    assert (row["exit_code"], row["signal"], row["stopped"], rank.failed) == (code, signum, False, failed)
    assert place.log(0).read_bytes() == b"to out\nto err\n"
    assert row["started"] <= row["ended"]


def test_a_rank_that_we_ended_has_not_failed(place: HostRun) -> None:
    rank = process(place, "/bin/sleep", "100")
    rank.start()
    os.kill(rank.row["pid"], signal.SIGSTOP)  # a frozen one hears it too
    rank.send(signal.SIGTERM)
    row = until_ended(rank)
    assert (row["exit_code"], row["signal"], row["stopped"], rank.failed) == (143, signal.SIGTERM, True, False)
    rank.send(signal.SIGTERM)  # nobody is there any more


def test_a_rank_runs_on_the_cpus_and_in_the_memory_that_the_plan_gives_it(place: HostRun) -> None:
    """With what it starts, too; the guard itself keeps its own."""
    before = os.sched_getaffinity(0)
    last = str(max(before))
    rank = process(place, "/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status", cpus=last, memory_nodes="0")
    rank.start()
    assert os.sched_getaffinity(0) == before
    assert until_ended(rank)["exit_code"] == 0
    assert place.log(0).read_text().split() == ["Cpus_allowed_list:", last]


def test_a_rank_for_which_no_cpu_is_left_does_not_start(place: HostRun) -> None:
    rank = process(place, "/bin/true", cpus="900-901", memory_nodes="0")
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"]) == ("exited", 126)
    assert "this process may not use the CPUs 900-901" in rank.row["detail"]


def test_a_warning_is_no_end_of_ours(place: HostRun) -> None:
    rank = process(place, "/bin/sleep", "100")
    rank.start()
    rank.warn(signal.SIGUSR1)
    row = until_ended(rank)
    assert (row["signal"], row["stopped"], rank.failed) == (signal.SIGUSR1, False, True)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["/nowhere/python"], 127, "cannot start /nowhere/python"),
        (["/etc/passwd"], 126, "cannot start /etc/passwd"),
    ],
)
def test_a_command_that_cannot_start(place: HostRun, argv: list[str], code: int, words: str) -> None:
    rank = process(place, *argv)
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"]) == ("exited", code)
    assert words in place.log(0).read_text()


def test_secrets_reach_the_process(place: HostRun) -> None:
    secret_files.write(place.secrets, {"TOKEN": b"hunter2"})
    rank = process(place, "/bin/sh", "-c", 'echo "$TOKEN"', secret_env=["TOKEN"])
    rank.start()
    until_ended(rank)
    assert place.log(0).read_bytes() == b"hunter2\n"


def test_a_rank_without_its_secret_does_not_start(place: HostRun) -> None:
    rank = process(place, "/bin/sh", "-c", "true", secret_env=["TOKEN"])
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"], rank.row["pid"]) == ("exited", 126, None)
    assert "cannot read a secret of this rank" in place.log(0).read_text()


def test_a_new_rank_has_nothing_behind_it(place: HostRun) -> None:
    rank = Recorded(place)
    assert (rank.number, rank.log) == (3, place.log(3))
    assert (rank.running, rank.failed, rank.may_start_late, rank.signalled, rank.must_stop()) == (False,) * 5
    nothing = {"pid": None, "ticks": None, "started": None, "ended": None, "exit_code": None, "signal": None}
    assert {**nothing, "state": "created", "oom": False, "stopped": False, "detail": ""}.items() <= rank.row.items()
    assert rank.row["kernel"] == []


@pytest.mark.parametrize(
    ("signum", "sent"),
    [(signal.SIGTERM, [signal.SIGTERM, signal.SIGCONT]), (signal.SIGKILL, [signal.SIGKILL])],
)
def test_a_frozen_rank_is_woken_to_handle_a_signal(place: HostRun, signum: int, sent: list[int]) -> None:
    """SIGKILL needs nobody awake, and a rank that is woken could write once more."""
    rank = Recorded(place)
    rank.send(signum)
    assert (rank.sent, rank.signalled) == ([], False), "it has not started"
    rank.row["state"] = "running"
    rank.send(signum)
    assert (rank.sent, rank.signalled) == (sent, True)
    rank.ended(0)
    rank.send(signum)
    assert rank.sent == sent


def test_a_rank_without_stacks_to_print_gets_the_signal(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def request(pid: int, _ticks: int) -> bool:
        asked.append(pid)
        return pid == 7

    monkeypatch.setattr("ddp_play.guard.hang_evidence.request_stacks", request)
    monkeypatch.setattr("threading.Thread.start", lambda thread: thread.run())
    for pid, sent in ((7, []), (8, [signal.SIGABRT, signal.SIGCONT])):
        rank = Recorded(place)
        rank.row.update(state="running", pid=pid, ticks=1)
        rank.send(signal.SIGABRT)
        assert rank.sent == sent
    assert asked == [7, 8]


def test_the_end_of_a_rank_that_was_never_started(place: HostRun) -> None:
    rank = Recorded(place)
    rank.not_started("the ranks are being stopped")
    row = rank.row
    assert (row["state"], row["exit_code"], row["stopped"], row["started"]) == ("exited", None, True, row["ended"])
    assert (row["detail"], rank.failed) == ("the ranks are being stopped", False)


def test_the_end_of_a_rank_keeps_what_was_known(place: HostRun) -> None:
    rank = Recorded(place)
    rank.row.update(state="running", started=5.0, detail="GPU 3 fell off the bus")
    rank.ended(None)
    row = rank.row
    assert (row["started"], row["detail"], row["exit_code"]) == (5.0, "GPU 3 fell off the bus", None)
    assert rank.failed, "an exit code that nobody can tell is a bad one"
    assert row["ended"] > 5.0


def test_nobody_waits_for_children_that_run(place: HostRun) -> None:
    rank = process(place, "/bin/sleep", "100")
    rank.start()
    began = time.monotonic()
    ranks.reap([rank])
    assert time.monotonic() - began < 10
    assert rank.running
    rank.send(signal.SIGKILL)
    assert until_ended(rank)["signal"] == signal.SIGKILL


def test_a_stop_reaches_what_a_rank_forked_and_a_warning_does_not(place: HostRun) -> None:
    script = "trap 'echo warned' USR1; sh -c 'trap \"echo forked\" USR1; while :; do sleep 0.05; done' & "
    rank = process(place, "/bin/sh", "-c", script + "echo ready; while :; do sleep 0.05; done")
    rank.start()
    wait_until(lambda: "ready" in place.log(0).read_text() and len(processes.descendants(rank.row["pid"])) >= 1)
    rank.warn(signal.SIGUSR1)
    wait_until(lambda: "warned" in place.log(0).read_text())
    below = processes.descendants(rank.row["pid"])
    rank.send(signal.SIGKILL)
    until_ended(rank)
    wait_until(lambda: not any(processes.alive(pid, None) for pid in below))
    assert "forked" not in place.log(0).read_text()
