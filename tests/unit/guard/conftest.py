"""A Docker engine for tests of the program on the hosts: HTTP over a Unix socket, as the real one speaks it.

And a rank in a container of that engine, with a real process as its first one.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.container_rank import ContainerRank, make
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.host_program import Line

if TYPE_CHECKING:
    from collections.abc import Iterator


class Engine(ThreadingMixIn, UnixStreamServer):
    """Answers what `answers` holds for `METHOD PATH`, with or without its query, else 404; `asked` keeps every request.

    While `awake` is cleared it accepts requests and answers none, as a dockerd does that is stopped by SIGSTOP; those
    that begin with a word of `slow` are answered when `woken` is set.
    """

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.awake = threading.Event()
        self.awake.set()
        self.slow: tuple[str, ...] = ()
        self.woken = threading.Event()
        super().__init__(str(path), _Handler)

    def has(self, request: str, value: Any, status: int = 200) -> None:
        """Answer this request with `value` as JSON, or as it is where it is bytes."""
        self.answers[request] = (status, value if isinstance(value, bytes) else json.dumps(value).encode())

    def container(self, name: str, **state: Any) -> None:
        """A container in this state that prints nothing by itself."""
        self.has(f"GET /containers/{name}/json", {"State": state})
        self.has(f"GET /containers/{name}/logs?stdout=1&stderr=1&tail=50", b"")


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def _answer(self) -> None:
        request = f"{self.command} {self.path}"
        self.server.asked.append(request)
        self.server.awake.wait()
        if request.startswith(self.server.slow):
            self.server.woken.wait()
        answers = self.server.answers
        found = answers.get(request) or answers.get(request.partition("?")[0])
        status, body = found or (404, b'{"message": "No such thing"}')
        with contextlib.suppress(BrokenPipeError):  # the caller waits no longer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if body:
                self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - http.server dictates the names

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""

    def address_string(self) -> str:
        """A caller on a Unix socket has no address."""
        return ""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine that DOCKER_HOST names during this test."""
    path = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with Engine(path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.awake.set()
            server.woken.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    """The directory of an attempt."""
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
    """The container's first process ends."""
    child.kill()
    child.wait()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    """A channel to the program on the hosts, as a controller has it."""
    with Line(tmp_path) as made:
        yield made
