"""The process that tells an event: a real HTTP server and real commands."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.run import hook_process
from ddp_play.run.hook_process import execute, post
from tests.run.conftest import alive
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE: dict[str, Any] = {
    "event": "end",
    "run": "night",
    "status": "failed",
    "exit_code": 1,
    "text": "run night failed",
}
SECRET = "abc123secret"


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it gets, and answers with the status in the path."""

    got: list[Any] = []  # noqa: RUF012 - one server at a time

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(int(self.path.split("/")[1]))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Receiver.got.clear()
    with HTTPServer(("127.0.0.1", 0), Receiver) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def test_the_webhook_gets_the_message(server: str) -> None:
    assert post(f"{server}/200/{SECRET}", MESSAGE) == "HTTP 200"
    assert Receiver.got == [(f"/200/{SECRET}", "application/json", MESSAGE)]


def test_failures_are_told_without_the_url(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post(f"{server}/404/{SECRET}", MESSAGE) == "failed: HTTP 404"
    monkeypatch.setattr(hook_process, "LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert post(f"http://127.0.0.1:{port}/{SECRET}", MESSAGE) == "failed: TimeoutError"
    assert post(f"http://127.0.0.1:{port}/{SECRET}", MESSAGE) == "failed: Connection refused"
    assert post(f"http://127.0.0.1:{port}/{SECRET} x", MESSAGE) == "failed: InvalidURL"


def test_a_command_gets_the_message_and_variables() -> None:
    found = execute(["sh", "-c", "cat; echo; echo $DDP_PLAY_EVENT $DDP_PLAY_RUN $DDP_PLAY_EXIT_CODE; exit 3"], MESSAGE)
    assert found == f"exit code 3\n{json.dumps(MESSAGE)}\nend night 1"


def test_a_command_that_does_not_end_or_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hook_process, "LIMIT_S", 0.3)
    began = time.monotonic()
    assert execute(["sh", "-c", "sleep 60 & sleep 60"], MESSAGE) == "ended after 0.3 s"
    assert time.monotonic() - began < 30
    assert execute([str(tmp_path / "none")], MESSAGE) == "failed: No such file or directory"


def test_a_command_without_an_end_of_output_is_ended_with_its_family(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was read into memory for 30 s: here that would be gigabytes."""
    monkeypatch.setattr(hook_process, "MOST_OUTPUT_BYTES", 1 << 20)
    began = time.monotonic()
    found = execute(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; yes"], MESSAGE)
    assert time.monotonic() - began < 25
    first, _, text = found.partition("\n")
    assert first.startswith("ended after 1 MiB of output, the last 16 KiB of ")
    assert len(text) <= hook_process.OUTPUT_BYTES
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not alive(child), what="the end of its child")


@pytest.mark.parametrize(("size", "cut"), [(16384, ""), (16385, ", the last 16 KiB of 16385 bytes of output")])
def test_output_that_was_cut_says_so(size: int, cut: str) -> None:
    found = execute([sys.executable, "-c", f"print('x' * {size}, end='')"], MESSAGE)
    assert found == f"exit code 0{cut}\n{'x' * 16384}"


def test_what_a_command_printed_before_its_time_was_over_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_process, "LIMIT_S", 1.0)
    assert execute(["sh", "-c", "echo begun; exec sleep 60"], MESSAGE) == "ended after 1 s\nbegun"
    assert execute(["sh", "-c", "exec >&- 2>&-; sleep 60"], MESSAGE) == "ended after 1 s"


def test_a_command_does_not_see_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hook_process.WEBHOOK_ENV, f"https://chat.example/{SECRET}")
    assert SECRET not in execute(["env"], MESSAGE)


def test_a_null_byte_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert execute(["echo", "a\0b"], MESSAGE) == "failed: embedded null byte"
    assert execute(["true"], {**MESSAGE, "message": "a\0b"}) == "failed: embedded null byte"


def test_an_answer_that_drips_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece of it comes within the timeout of the socket."""
    monkeypatch.setattr(hook_process, "LIMIT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        began = time.monotonic()
        assert post(f"http://127.0.0.1:{server.getsockname()[1]}/", MESSAGE) == "failed: no whole answer within 0.5 s"
        assert time.monotonic() - began < 10
        thread.join()


def drip(server: socket.socket) -> None:
    """One byte of a header every 0.1 s, for three seconds."""
    connection, _ = server.accept()
    with connection:
        for byte in b"HTTP/1.1 200 OK\r\nX: abcdefghijk":
            connection.sendall(bytes([byte]))
            time.sleep(0.1)


def test_the_log_says_what_came_of_it_and_has_no_url(tmp_path: Path, server: str) -> None:
    log = tmp_path / "hooks.log"
    order = {"command": ["echo", "hello"], "url": f"{server}/200/{SECRET}", "message": MESSAGE, "log": str(log)}
    argv = [sys.executable, "-m", "ddp_play.run.hook_process"]
    subprocess.run(argv, input=json.dumps(order).encode(), check=True, timeout=60)
    text = log.read_text()
    assert [line.split(" ", 1)[-1] for line in text.splitlines()] == [
        "end webhook: HTTP 200",
        "end command: exit code 0",
        "hello",
    ]
    assert SECRET not in text


def test_the_log_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_process, "MAX_LOG_BYTES", 100)
    for _ in range(20):
        hook_process._note(tmp_path / "hooks.log", "end", "x" * 50)
    assert (tmp_path / "hooks.log").stat().st_size < 200
    hook_process._note(tmp_path / "gone" / "hooks.log", "end", "x")
