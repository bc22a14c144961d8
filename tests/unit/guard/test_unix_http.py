"""One request over a Unix socket, against a server that answers as each case says."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import unix_http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Start a server that sends these pieces to its one client, and then hangs up."""
    threads = []

    def start(*pieces: bytes, pause_s: float = 0.0) -> Path:
        path = tmp_path / "engine.sock"
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(path))
        server.listen(1)

        def answer() -> None:
            with server:
                client, _ = server.accept()
                with client:
                    request = client.recv(65536)
                    (tmp_path / "request").write_bytes(request)
                    for piece in pieces:
                        try:
                            client.sendall(piece)
                        except OSError:
                            return
                        time.sleep(pause_s)

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join(20)


def test_status_and_body_of_an_answer_in_pieces(serve: Callable[..., Path], tmp_path: Path) -> None:
    path = serve(b"HTTP/1.0 404 Not", b" Found\r\nContent-Length: 4\r\n", b"\r\nno\r", b"\n")
    assert unix_http.request(str(path), "POST", "/containers/x/start?a=b", 20) == (404, b"no\r\n")
    request = (tmp_path / "request").read_bytes()
    assert request == b"POST /containers/x/start?a=b HTTP/1.0\r\nHost: localhost\r\n\r\n"


def test_an_answer_without_a_body(serve: Callable[..., Path]) -> None:
    assert unix_http.request(str(serve(b"HTTP/1.1 204 No Content\r\n\r\n")), "DELETE", "/x", 20) == (204, b"")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "ended within the answer"),
    ],
)
def test_what_is_no_answer(serve: Callable[..., Path], answer: bytes, words: str) -> None:
    with pytest.raises(unix_http.AnswerError, match=words):
        unix_http.request(str(serve(answer)), "GET", "/", 20)


def test_an_answer_without_end_is_cut_off(serve: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_http, "MAX_BYTES", 1000)
    with pytest.raises(unix_http.AnswerError, match="more than"):
        unix_http.request(str(serve(b"HTTP/1.0 200 OK\r\n\r\n", *[b"x" * 500] * 9)), "GET", "/", 20)


def test_the_time_limit_is_that_of_the_whole_answer(serve: Callable[..., Path]) -> None:
    """A server that sends a byte now and then does not prolong it."""
    path = serve(b"HTTP/1.0 200 OK\r\n\r\n", *[b"x"] * 200, pause_s=0.1)
    began = time.monotonic()
    with pytest.raises(socket.timeout):
        unix_http.request(str(path), "GET", "/", 0.3)
    assert time.monotonic() - began < 10


def test_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unix_http.request(str(tmp_path / "nothing"), "GET", "/", 1)
