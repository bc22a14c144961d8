"""What verify says of exporters that answer, or do not, with metrics."""

from __future__ import annotations

import contextlib
import http.server
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.content.role_files import ROOT, read

if TYPE_CHECKING:
    from collections.abc import Iterator

PROBE = read(ROOT / "roles/monitoring/vars/main.yml")["__monitoring_probe"]
METRICS = b"# HELP up Is it up?\n# TYPE up gauge\nup 1\n"


@contextlib.contextmanager
def exporter(status: int, body: bytes, path: str = "/metrics") -> Iterator[int]:
    """An HTTP server that gives this answer under the path; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == path else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def said(*ports: object, address: str = "127.0.0.1") -> str:
    words = [sys.executable, "-c", PROBE, address, *map(str, ports)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("status", "body", "path", "expected"),
    [
        (200, METRICS, "/metrics", ""),
        (200, b"<html>hello</html>", "/metrics", "{port} (no metrics)\n"),
        (500, METRICS, "/metrics", "{port} (no metrics)\n"),
        (302, METRICS, "/metrics", "{port} (no metrics)\n"),
        (200, METRICS, "/elsewhere", "{port} (no metrics)\n"),
        (200, b"", "/metrics", "{port} (no metrics)\n"),
    ],
)
def test_what_an_exporter_answers(status: int, body: bytes, path: str, expected: str) -> None:
    with exporter(status, body, path) as port:
        assert said(port) == expected.format(port=port)


def test_each_port_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    with exporter(200, METRICS) as port:
        assert said(closed, port) == f"{closed} ([Errno 111] Connection refused)\n"


def test_an_address_in_brackets_as_exporters_take_ipv6() -> None:
    with exporter(200, METRICS) as port:
        assert said(port, address="[127.0.0.1]") == ""


def test_a_port_that_needs_a_driver_is_asked_only_where_one_is_loaded() -> None:
    loaded = Path("/proc/driver/nvidia/version").exists()
    with exporter(200, b"") as port:
        assert said(f"gpu:{port}") == (f"{port} (no metrics)\n" if loaded else "")
