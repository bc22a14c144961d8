"""What the kernel and an engine tell about a container that has ended, and what the guard makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import container_rank, docker_socket, processes
from ddp_play.guard.container_rank import ENGINE_PATIENCE_S, SLOW_ENGINE_S, ContainerRank
from ddp_play.guard.docker_socket import EngineError
from ddp_play.guard.run_directory import HostRun
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

OURS, OTHER = 70, 80


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time of the rank; tests change it."""
    now = [1000.0]
    monkeypatch.setattr(container_rank, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 5.0))
    return now


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Pids of the processes that run."""
    pids: set[int] = set()
    monkeypatch.setattr(processes, "alive", lambda pid, _ticks: pid in pids)
    monkeypatch.setattr(processes, "start_ticks", lambda pid: 7 if pid in pids else None)
    monkeypatch.setattr(processes, "first_in_container", lambda _id: None)
    return pids


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the engine says about the state of the container, or the error that it answers with."""
    answer: dict[str, Any] = {}

    def inspect(_name: str, _timeout_s: float) -> dict[str, Any]:
        if "error" in answer:
            raise answer["error"]
        return {"State": answer}

    monkeypatch.setattr(docker_socket, "inspect", inspect)
    monkeypatch.setattr(docker_socket, "logs_tail", lambda _name: b"")
    return answer


@pytest.fixture
def rank(tmp_path: Path, clock: list[float], living: set[int], engine: dict[str, Any]) -> ContainerRank:
    """A rank whose process has ended."""
    place = HostRun(tmp_path)
    place.logs.mkdir()
    made = ContainerRank({"rank": 0, "container": "r0", "container_id": "abc"}, place)
    made.row.update(state="running", pid=OURS, ticks=7, started=400.0)
    return made


def end(rank: ContainerRank) -> tuple[Any, ...]:
    return rank.row["state"], rank.row["exit_code"]


def test_a_container_whose_process_lives_has_not_ended(rank: ContainerRank, living: set[int]) -> None:
    living.add(OURS)
    rank.poll()
    assert (end(rank), rank.may_start_late, rank._gone_since) == (("running", None), False, None)


@pytest.mark.parametrize(("answer", "code"), [({"ExitCode": 0}, 0), ({"ExitCode": 3}, 3), ({}, None)])
def test_only_an_exit_code_of_the_engine_is_one(
    rank: ContainerRank, engine: dict[str, Any], answer: Any, code: Any
) -> None:
    engine.update(answer)
    rank.poll()
    assert end(rank) == ("exited", code)
    assert rank.failed is (code != 0), "what nobody can tell is no success"
    assert rank.row["detail"] == ("its process has ended, and the engine reported no exit code" if code is None else "")


def test_a_process_that_appears_late_is_found_without_the_engine(
    rank: ContainerRank, living: set[int], engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rank.row["pid"] = None
    rank.look()
    engine["error"] = AssertionError("the engine was asked")
    monkeypatch.setattr(processes, "first_in_container", {"abc": OTHER}.get)
    living.add(OTHER)
    rank.poll()
    assert (rank.row["pid"], rank.row["ticks"], rank._gone_since) == (OTHER, 7, None)
    monkeypatch.setattr(processes, "first_in_container", lambda _id: pytest.fail("it has its process"))
    rank.poll()
    assert rank.running


@pytest.mark.parametrize(
    ("told", "found", "pid"), [(OTHER, None, OTHER), (0, None, None), (90, None, None), (OTHER, OURS, OURS)]
)
def test_the_engines_process_is_watched_only_if_it_lives_and_none_was_found(
    rank: ContainerRank, living: set[int], engine: dict[str, Any], told: int, found: int | None, pid: int | None
) -> None:
    """The number of a process that has ended may be another one's."""
    living.add(OTHER)
    rank.row["pid"] = found
    engine.update(Running=True, Pid=told, ExitCode=0)
    rank.poll()
    assert (end(rank), rank.row["pid"]) == (("running", None), pid)
    assert (rank._gone_since is None) is (pid == OTHER)


@pytest.mark.parametrize(
    ("signalled", "after_s", "ended"),
    [
        (False, SLOW_ENGINE_S - 0.1, False),
        (False, SLOW_ENGINE_S, True),
        (True, ENGINE_PATIENCE_S - 0.1, False),
        (True, ENGINE_PATIENCE_S, True),
    ],
)
def test_an_engine_that_says_running_is_believed_for_so_long(
    rank: ContainerRank, clock: list[float], engine: dict[str, Any], signalled: bool, after_s: float, ended: bool
) -> None:
    rank.signalled = signalled
    engine.update(Running=True, Pid=OURS, ExitCode=0)
    rank.poll()
    clock[0] += after_s
    rank.poll()
    assert end(rank) == ("exited" if ended else "running", None)


@pytest.mark.parametrize(("after_s", "ended"), [(ENGINE_PATIENCE_S - 0.1, False), (ENGINE_PATIENCE_S, True)])
def test_an_engine_that_refuses_is_asked_for_so_long(
    rank: ContainerRank, clock: list[float], engine: dict[str, Any], after_s: float, ended: bool
) -> None:
    engine["error"] = EngineError("restarting", 503)
    rank.poll()
    clock[0] += after_s
    rank.poll()
    assert end(rank) == ("exited" if ended else "running", None)


@pytest.mark.parametrize(("started", "since"), [(400.0, 400.0), (None, 0.0)])
def test_the_events_since_the_start_tell_the_code_of_a_removed_container(
    rank: ContainerRank, engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch, started: float | None, since: float
) -> None:
    asked: list[tuple[str, float, float]] = []

    def exit_code_of_removed(*question: Any) -> int:
        asked.append(question)
        return 137

    monkeypatch.setattr(docker_socket, "exit_code_of_removed", exit_code_of_removed)
    rank.row["started"] = started
    engine["error"] = EngineError("no such container", 404)
    rank.poll()
    assert asked == [("r0", since, SLOW_ENGINE_S)]
    assert (end(rank), rank.row["signal"]) == (("exited", 137), 9)


@pytest.mark.parametrize(("stops", "waits"), [(False, 2), (True, 0)])
def test_a_start_is_waited_for_without_spinning_until_the_ranks_are_stopped(
    rank: ContainerRank, monkeypatch: pytest.MonkeyPatch, stops: bool, waits: int
) -> None:
    joined: list[float] = []
    request = SimpleNamespace(start=lambda: None, join=joined.append, problem="no answer", outcome=None)
    request.is_alive = lambda: len(joined) < 2
    monkeypatch.setattr(container_rank, "_Start", lambda _container: request)
    rank.must_stop = lambda: stops
    rank.start()
    assert joined == [container_rank.START_POLL_S] * waits
    assert (rank.row["state"], rank.row["stopped"], rank.may_start_late) == ("exited", stops, True)


def test_signals_through_the_engine_do_not_keep_the_guard_alive(
    rank: ContainerRank, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(docker_socket, "kill", lambda *signalled: sent.append(signalled))
    rank.row["pid"] = None
    rank.deliver(15)
    wait_until(lambda: sent == [("r0", "SIGTERM")])
    assert rank._killing is not None
    assert rank._killing.daemon
