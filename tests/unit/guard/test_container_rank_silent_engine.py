"""Container ranks while their engine does not answer, answers late, or does not say how they ended."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import container_rank
from ddp_play.guard.container_rank import ContainerRank, make
from tests.unit.guard.conftest import gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.guard.run_directory import HostRun
    from tests.unit.guard.conftest import Engine


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
    monkeypatch.setattr(container_rank, "REMOVE_S", 20.0)
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
