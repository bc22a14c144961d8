"""Ranks under a torchrun: what the guard makes of the files they leave and of torchrun's own end."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.torchrun_ranks import PID_ATTEMPTS, TAIL_BYTES, Agent, make_all

if TYPE_CHECKING:
    from pathlib import Path

UNIT: dict[str, Any] = {"argv": ["true"], "env": {}, "workdir": "/"}


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "1.h1")
    for directory in (made.logs, made.rank_dir(4), made.rank_dir(5)):
        directory.mkdir(parents=True)
    return made


def spec(**more: Any) -> dict[str, Any]:
    return {"agent": {"rank": 4, **UNIT, **more}, "ranks": [{"rank": 4, **UNIT}, {"rank": 5, **UNIT}]}


def started(place: HostRun, *ranks: int) -> None:
    for rank in ranks:
        (place.rank_dir(rank) / ".started").write_text(f"{os.getpid()}\n")


def exited(place: HostRun, rank: int, code: int, *, at: float) -> None:
    path = place.rank_dir(rank) / ".exited"
    path.write_text(f"{code}\n")
    os.utime(path, (at, at))


def rows(agent: Agent) -> dict[int, tuple[Any, ...]]:
    return {
        worker.number: tuple(worker.row[key] for key in ("state", "exit_code", "signal", "stopped"))
        for worker in agent.workers
    }


def test_ranks_run_when_their_wrapper_says_so(place: HostRun) -> None:
    agent = Agent(spec(), place)
    agent.unit.row["pid"] = os.getppid()
    agent.poll()
    assert rows(agent) == {4: ("created", None, None, False), 5: ("created", None, None, False)}
    started(place, 4)
    agent.poll()
    assert rows(agent)[4][0] == "running"
    assert agent.workers[0].row["pid"] == os.getpid()
    assert agent.workers[0].row["ticks"]


def test_in_a_container_a_pid_is_not_the_hosts(place: HostRun) -> None:
    agent = Agent(spec(container="ddp-r-a1-n0"), place)
    started(place, 4)
    agent.poll()
    assert (agent.workers[0].row["pid"], agent.workers[0].row["container"]) == (None, "ddp-r-a1-n0")
    agent.unit.row["pid"] = os.getpid()
    for _ in range(30):
        agent.poll()
    assert agent.workers[0].row["pid"] is None, "no namespace below this process"


def test_a_rank_in_a_container_is_found_by_the_pid_that_it_has_in_there(place: HostRun) -> None:
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "60"]
    with subprocess.Popen(unshare, stderr=subprocess.DEVNULL) as container:
        try:
            deadline = time.monotonic() + 10
            while container.poll() is None and not (below := processes.descendants(container.pid)):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            if container.poll() is not None:
                pytest.skip("this user may not make pid namespaces")
            agent = Agent(spec(container="ddp-r-a1-n0"), place)
            agent.unit.row["pid"] = container.pid
            (place.rank_dir(4) / ".started").write_text("1\n")
            agent.poll()
            agent.poll()
            assert agent.workers[0].row["pid"] == below[0]
        finally:
            container.kill()


def test_the_pid_in_a_container_is_looked_up_so_often_and_not_in_vain(
    place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(processes, "pid_outside_namespace", lambda inside, agent: asked.append((inside, agent)))
    agent = Agent(spec(container="ddp-r-a1-n0"), place)
    agent.poll()
    (place.rank_dir(4) / ".started").write_text("17\n")
    agent.poll()
    agent.poll()
    assert asked == [], "torchrun's own pid is not known yet"
    agent.unit.row["pid"] = 4711
    for _ in range(PID_ATTEMPTS + 5):
        agent.poll()
    assert asked == [(17, 4711)] * PID_ATTEMPTS


@pytest.mark.parametrize(
    ("state", "pid", "alive", "sent"),
    [
        ("running", 70, True, [(71, 710)]),
        ("running", 70, False, []),
        ("running", None, True, []),
        ("exited", 70, True, []),
    ],
)
def test_a_warning_reaches_the_rank_below_its_wrapper_only(
    place: HostRun, monkeypatch: pytest.MonkeyPatch, state: str, pid: int | None, alive: bool, sent: list[Any]
) -> None:
    """torchrun would end on a signal that it does not handle."""
    told: list[tuple[int, int]] = []

    def signal_exactly(first: int, ticks: int, signum: int) -> None:
        told.append((first, ticks))
        raise PermissionError(signum)

    monkeypatch.setattr(processes, "alive", lambda *_: alive)
    monkeypatch.setattr(processes, "descendants", lambda root: [root + 1, root + 2])
    monkeypatch.setattr(processes, "start_ticks", lambda pid: pid * 10)
    monkeypatch.setattr(processes, "signal_exactly", signal_exactly)
    worker = Agent(spec(), place).workers[0]
    worker.row.update(state=state, pid=pid, ticks=5)
    worker.deliver(10)
    assert told == sent


def test_a_rank_gets_the_end_of_torchruns_log(place: HostRun) -> None:
    agent = Agent(spec(), place)
    place.agent_log.write_text("early" + "x" * TAIL_BYTES)
    agent.unit.ended(1)
    agent.poll()
    told = place.log(4).read_text()
    assert "torchrun ended before this rank did:\nxxx" in told
    assert "early" not in told
    assert told.count("x" * 10) == TAIL_BYTES // 10


def test_the_first_end_is_the_cause_and_the_rest_were_stopped_by_torchrun(place: HostRun) -> None:
    agent = Agent(spec(), place)
    started(place, 4, 5)
    agent.poll()
    exited(place, 4, 143, at=20.0)
    exited(place, 5, 7, at=10.0)
    agent.poll()
    assert rows(agent) == {4: ("exited", 143, 15, True), 5: ("exited", 7, None, False)}
    assert [worker.row["ended"] for worker in agent.workers] == [20.0, 10.0]
    assert [worker.failed for worker in agent.workers] == [False, True]


def test_a_rank_killed_from_outside_failed(place: HostRun) -> None:
    agent = Agent(spec(), place)
    started(place, 4, 5)
    agent.poll()
    exited(place, 4, 137, at=10.0)
    agent.poll()
    assert rows(agent)[4] == ("exited", 137, 9, False)
    agent.unit.row.update(oom=True)
    agent.unit.ended(1)
    agent.poll()
    assert agent.workers[0].row["oom"] is True


def test_what_we_stopped_was_stopped(place: HostRun) -> None:
    agent = Agent(spec(), place)
    started(place, 4, 5)
    agent.poll()
    agent.unit.signalled = True
    exited(place, 4, 143, at=1.0)
    exited(place, 5, 0, at=1.0)
    agent.poll()
    assert rows(agent) == {4: ("exited", 143, 15, True), 5: ("exited", 0, None, True)}


def test_a_torchrun_that_ends_first_says_why_in_the_ranks_logs(place: HostRun) -> None:
    agent = Agent(spec(), place)
    place.agent_log.write_text("No module named 'torch'\n")
    agent.unit.ended(1)
    agent.poll()
    assert rows(agent) == {4: ("exited", 1, None, False), 5: ("exited", 1, None, False)}
    assert "No module named 'torch'" in place.log(5).read_text()


def test_without_a_torchrun_ranks_are_units(place: HostRun) -> None:
    ranks, units, agent = make_all({"ranks": [{"rank": 4, **UNIT}]}, place)
    assert ranks is units
    assert agent is None


@pytest.mark.parametrize("text", ["1", "99999999999", "²", "-5", "0", "x"])
def test_a_pid_or_code_that_a_rank_invents_is_not_believed(place: HostRun, text: str) -> None:
    """What has that pid would be stopped and signalled by root; a code out of range would cost the host."""
    agent = Agent(spec(), place)
    agent.unit.row["pid"] = os.getpid()
    (place.rank_dir(4) / ".started").write_text(text)
    agent.poll()
    assert (agent.workers[0].row["state"], agent.workers[0].row["pid"]) == ("running", None)
    (place.rank_dir(4) / ".exited").write_text("4000" if text == "1" else text)
    agent.poll()
    assert agent.workers[0].row["exit_code"] == (0 if text == "0" else None)
