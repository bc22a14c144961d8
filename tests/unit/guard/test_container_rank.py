"""Ranks as containers of an engine on a Unix socket, with real processes as their first ones."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from ddp_play.guard.container_rank import ContainerRank, make
from tests.unit.guard.conftest import gone
from tests.waiting import wait_until

if TYPE_CHECKING:
    from ddp_play.guard.run_directory import HostRun
    from tests.unit.guard.conftest import Engine


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


@pytest.mark.parametrize(("code", "signum"), [(128, None), (129, 1), (192, 64), (193, None), (255, None)])
def test_only_128_and_a_signal_is_a_signal(
    container: ContainerRank, engine: Engine, child: subprocess.Popen[bytes], code: int, signum: int | None
) -> None:
    gone(child)
    engine.container("r0", Running=False, ExitCode=code, Error="x")
    container.poll()
    assert (container.row["exit_code"], container.row["signal"], container.row["detail"]) == (code, signum, "x")
