"""Ranks as containers of an engine on a Unix socket, with real processes as their first ones."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from ddp_play.guard import container_rank
from ddp_play.guard.container_rank import ContainerRank, make
from ddp_play.guard.run_directory import HostRun
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.guard.conftest import Engine


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "runs" / "night" / "1.h1")
    made.logs.mkdir(parents=True)
    return made


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """The process that stands for a container's first one."""
    with subprocess.Popen(["/bin/sleep", "100"]) as made:
        yield made
        made.kill()


@pytest.fixture
def container(place: HostRun, engine: Engine, child: subprocess.Popen[bytes]) -> ContainerRank:
    """A container rank that runs."""
    engine.has("POST /containers/r0/start", b"", 204)
    engine.container("r0", Pid=child.pid, Running=True)
    rank = make({"rank": 0, "container": "r0"}, place)
    assert isinstance(rank, ContainerRank)
    rank.start()
    assert (rank.row["state"], rank.row["pid"]) == ("running", child.pid)
    return rank


def gone(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()


def test_a_container_is_watched_by_its_process_alone(container: ContainerRank, engine: Engine) -> None:
    engine.asked.clear()
    container.poll()
    assert container.running
    assert engine.asked == []


@pytest.mark.parametrize(("code", "signum"), [(0, None), (3, None), (137, 9)])
def test_the_end_of_a_container_is_the_engines(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes], code: int, signum: int | None
) -> None:
    gone(child)
    engine.container("r0", Running=True)  # not noticed yet
    container.poll()
    assert container.running
    engine.container("r0", Running=False, ExitCode=code, OOMKilled=code == 137, Error="")
    engine.has("GET /containers/r0/logs?stdout=1&stderr=1&tail=50", b"\x01\0\0\0\0\0\0\x04exec")
    container.poll()
    row = container.row
    assert (row["state"], row["exit_code"], row["signal"], row["oom"]) == ("exited", code, signum, code == 137)
    assert "output of the container outside the rank's log:\nexec" in container.log.read_text()


def test_a_container_that_somebody_removed(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes]
) -> None:
    gone(child)
    engine.answers.clear()
    container.poll()
    assert (container.row["state"], container.row["exit_code"]) == ("exited", None)
    assert container.row["detail"] == "the container was removed from outside"


DIED = json.dumps({"Action": "die", "Actor": {"Attributes": {"exitCode": "137", "name": "r0"}}}).encode() + b"\n"


@pytest.mark.parametrize(
    ("events", "code", "signum"),
    [
        (DIED, 137, 9),
        (DIED.replace(b"137", b"1") + DIED, 137, 9),
        (DIED.replace(b"137", b"3"), 3, None),
        (b"", None, None),
    ],
    ids=["killed", "twice", "ended by itself", "forgotten"],
)
def test_the_engine_remembers_the_exit_code_of_a_removed_container(
    container: ContainerRank,
    engine: Engine,
    child: subprocess.Popen[bytes],
    events: bytes,
    code: int | None,
    signum: int | None,
) -> None:
    """The removal may win against the first question, and the run ended with 1 instead of 137."""
    gone(child)
    engine.answers.clear()
    engine.has("GET /events", events)
    container.poll()
    row = container.row
    assert (row["exit_code"], row["signal"], row["detail"]) == (code, signum, "the container was removed from outside")
    (asked,) = [request for request in engine.asked if request.startswith("GET /events")]
    assert quote('"container": ["r0"]') in asked


def test_without_an_engine_the_exit_code_stays_unknown(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone(child)
    engine.has("GET /containers/r0/json", {"message": "restarting"}, 503)
    container.poll()
    assert container.running, "the engine may come back"
    monkeypatch.setattr(container_rank, "ENGINE_PATIENCE_S", 0.0)
    container.poll()
    assert (container.row["state"], container.row["exit_code"]) == ("exited", None)
    assert "the engine did not report the exit code: restarting" in container.row["detail"]


def test_an_engine_that_never_notices_the_end_does_not_make_it_a_success(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code of a container that runs is 0 for the engine."""
    gone(child)
    engine.container("r0", Pid=child.pid, Running=True, ExitCode=0)
    container.poll()
    assert container.running
    monkeypatch.setattr(container_rank, "SLOW_ENGINE_S", 0.0)
    container.poll()
    row = container.row
    assert (row["state"], row["exit_code"], container.failed) == ("exited", None, True)
    assert row["detail"] == "its process has ended, but the engine still reports it as running"


def test_a_slow_engine_is_asked_again_after_an_answer_from_before_the_end(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes]
) -> None:
    gone(child)
    engine.container("r0", Pid=child.pid, Running=True, ExitCode=0)
    container._gone_since = time.monotonic() - container_rank.ENGINE_PATIENCE_S - 1
    container.poll()
    assert container.running
    engine.container("r0", Running=False, ExitCode=3)
    container.poll()
    assert container.row["exit_code"] == 3


def test_a_container_whose_process_was_not_found_is_adopted_by_what_the_engine_says(
    place: HostRun, engine: Engine, child: subprocess.Popen[bytes]
) -> None:
    """The engine refused the question after the start, and the control group lacks the container's id."""
    engine.has("POST /containers/r0/start", b"", 204)
    engine.has("GET /containers/r0/json", {"message": "restarting"}, 503)
    rank = make({"rank": 0, "container": "r0", "container_id": "no-such-container"}, place)
    rank.start()
    assert isinstance(rank, ContainerRank)
    assert (rank.row["state"], rank.row["pid"]) == ("running", None)
    rank._gone_since = time.monotonic() - 60
    engine.container("r0", Pid=child.pid, Running=True, ExitCode=0)
    rank.poll()
    assert (rank.row["state"], rank.row["pid"]) == ("running", child.pid)
    rank.poll()
    assert rank.running
    gone(child)
    engine.container("r0", Running=False, ExitCode=3)
    rank.poll()
    assert rank.row["exit_code"] == 3


def test_signals_go_to_the_containers_first_process(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes]
) -> None:
    container.send(signal.SIGTERM)
    assert child.wait(20) == -signal.SIGTERM
    engine.container("r0", Running=False, ExitCode=143)
    container.poll()
    assert (container.row["signal"], container.row["stopped"]) == (15, True)


def test_what_we_may_not_signal_the_engine_signals(
    container: ContainerRank, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("ddp_play.guard.processes.signal_exactly", refuse)
    container.warn(signal.SIGUSR1)
    container.send(signal.SIGTERM)
    wanted = [f"POST /containers/r0/kill?signal={name}" for name in ("SIGUSR1", "SIGTERM", "SIGCONT")]
    wait_until(lambda: engine.asked[-3:] == wanted)


def test_a_container_that_does_not_start(place: HostRun, engine: Engine) -> None:
    engine.has("POST /containers/r0/start", {"message": "executable file not found"}, 400)
    rank = make({"rank": 0, "container": "r0"}, place)
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"]) == ("exited", 127)
    assert "the container does not start: executable file not found" in place.log(0).read_text()


def test_a_container_that_ended_before_anybody_looked(place: HostRun, engine: Engine) -> None:
    engine.has("POST /containers/r0/start", b"", 204)
    engine.container("r0", Pid=0, Running=False, ExitCode=5)
    rank = make({"rank": 0, "container": "r0"}, place)
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"], rank.failed) == ("exited", 5, True)


# -- engines that do not answer ------------------------------------------------------------------------


@pytest.fixture
def late(place: HostRun, engine: Engine, child: subprocess.Popen[bytes]) -> Iterator[ContainerRank]:
    """A rank whose engine has not answered the request to start it when the ranks are stopped."""
    engine.awake.clear()
    rank = make({"rank": 0, "container": "r0", "container_id": "abc123"}, place)
    assert isinstance(rank, ContainerRank)
    rank.must_stop = lambda: bool(engine.asked)
    rank.start()
    yield rank
    engine.awake.set()


def test_a_start_without_an_answer_counts_as_ended_and_is_remembered(late: ContainerRank, engine: Engine) -> None:
    row = late.row
    assert (row["state"], row["exit_code"], row["stopped"], late.may_start_late) == ("exited", None, True, True)
    assert row["detail"].endswith("to start the container: the engine has not answered yet")
    assert row["detail"] in late.log.read_text()
    assert not [thread for thread in threading.enumerate() if thread.name == "start" and not thread.daemon]


def test_a_late_start_is_prevented_until_the_engine_has_removed_the_container(
    late: ContainerRank, engine: Engine, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would train together with the next attempt."""
    searched: list[str] = []

    def first(container_id: str) -> int:
        searched.append(container_id)
        return child.pid

    monkeypatch.setattr(container_rank, "REMOVE_S", 0.2)
    monkeypatch.setattr("ddp_play.guard.processes.first_in_container", first)
    late.prevent_late_start()
    assert child.wait(20) == -signal.SIGKILL
    assert late.may_start_late, "the engine has not answered"
    engine.has("DELETE /containers/r0?force=1&v=1", b"", 204)
    engine.awake.set()
    late.prevent_late_start()
    assert not late.may_start_late
    assert set(searched) == {"abc123"}
    asked = len(engine.asked)
    late.prevent_late_start()
    assert len(engine.asked) == asked, "once is enough"


def test_a_start_that_the_engine_cannot_answer_is_a_failure(
    place: HostRun, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = make({"rank": 0, "container": "r0"}, place)
    monkeypatch.setattr("ddp_play.guard.docker_socket.START_S", 0.2)
    engine.awake.clear()
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"], rank.failed) == ("exited", 125, True)
    assert "the engine did not answer" in rank.row["detail"].partition("container: ")[2]
    assert rank.may_start_late


def test_a_process_that_the_engine_does_not_tell_is_found_in_the_kernel(
    place: HostRun, engine: Engine, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.guard.processes.first_in_container", lambda _: child.pid)
    engine.has("POST /containers/r0/start", b"", 204)
    engine.has("GET /containers/r0/json", {"message": "restarting"}, 503)
    rank = make({"rank": 0, "container": "r0", "container_id": "abc123"}, place)
    rank.start()
    assert (rank.row["state"], rank.row["pid"]) == ("running", child.pid)


@pytest.mark.parametrize(("code", "signum"), [(128, None), (129, 1), (192, 64), (193, None), (255, None)])
def test_only_128_and_a_signal_is_a_signal(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes], code: int, signum: int | None
) -> None:
    gone(child)
    engine.container("r0", Running=False, ExitCode=code, Error="x")
    container.poll()
    assert (container.row["exit_code"], container.row["signal"], container.row["detail"]) == (code, signum, "x")


@pytest.mark.parametrize(("signalled", "patience_s"), [(False, 10.0), (True, 3.0)])
def test_the_patience_with_an_engine_counts_from_the_end_of_the_process(
    container: ContainerRank, child: subprocess.Popen[bytes], signalled: bool, patience_s: float
) -> None:
    """Eight ranks that end at once share it."""
    gone(child)
    container.signalled = signalled
    container.look()
    assert container._question_s() == pytest.approx(patience_s, abs=1.0)
    container._gone_since = time.monotonic() - 60
    assert container._question_s() == container_rank.LAST_QUESTION_S
