"""Files of this machine over HTTP, at an address that the hosts of a lab reach."""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.conftest import Lab


@contextmanager
def serving_files(lab: Lab, directory: Path) -> Iterator[tuple[str, int]]:
    """Address and port of a server of this directory, which ends with the context."""
    address = lab.status()["hosts"][0]["addresses"][0].rpartition(".")[0] + ".1"
    handler = functools.partial(_Quiet, directory=str(directory))
    with ThreadingHTTPServer((address, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield address, server.server_port
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it
        """Print nothing."""
