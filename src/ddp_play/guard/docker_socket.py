"""The Docker Engine on this host, over its Unix socket (6 ms a call, where the CLI takes 35).

Only `create` goes through the CLI, with the very command that the plan prints.
Engine API 1.41 is what Debian 12's docker.io speaks; every newer engine accepts what is used here without a version.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import quote

from . import unix_http

SOCKET = "/var/run/docker.sock"
START_S = 120.0


class EngineError(Exception):
    """The engine refused (`status`: HTTP status), was not reached (0) or denied permission on its socket (-1).

    `slow`: it accepted the request and did not answer in time, so it may still carry the request out.
    """

    def __init__(self, message: str, status: int = 0, *, slow: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.slow = slow


def _socket_path() -> str:
    host = os.environ.get("DOCKER_HOST", "")
    return host[len("unix://") :] if host.startswith("unix://") else SOCKET


def call(method: str, path: str, *, timeout_s: float = 30.0) -> Any:
    """Send one request; return the decoded answer (None if empty). Raises EngineError."""
    try:
        status, body = unix_http.request(_socket_path(), method, path, timeout_s)
    except PermissionError as error:
        raise EngineError("no permission on %s" % _socket_path(), -1) from error
    except socket.timeout as error:  # another class than TimeoutError before Python 3.10
        raise EngineError(
            "the engine did not answer on %s within %.0f s" % (_socket_path(), timeout_s), slow=True
        ) from error
    except OSError as error:
        raise EngineError("no Docker engine answers on %s (%s)" % (_socket_path(), error)) from error
    return _decode(status, body)


def _decode(status: int, body: bytes) -> Any:
    try:
        value = json.loads(body) if body.strip() else None
    except ValueError:
        value = body.decode("utf-8", "replace")
    if status >= 400:
        message = value.get("message") if isinstance(value, dict) else value
        raise EngineError(str(message or "HTTP %d" % status), status)
    return value


def silence(timeout_s: float) -> str:
    """Why the engine does not answer a trivial request; empty if it answers."""
    try:
        call("GET", "/_ping", timeout_s=timeout_s)
    except EngineError as error:
        return str(error) if error.status <= 0 else ""
    return ""


def version() -> Dict[str, Any]:
    """Version document of the engine. Raises EngineError."""
    answer = call("GET", "/version", timeout_s=10)
    return dict(answer or {})


def info() -> Dict[str, Any]:
    """Document about the engine and its settings. Raises EngineError."""
    return dict(call("GET", "/info", timeout_s=30) or {})


def image(reference: str) -> Optional[Dict[str, Any]]:
    """Document of a local image; None if the host does not have it. Raises EngineError."""
    try:
        return dict(call("GET", "/images/%s/json" % quote(reference, safe="/:@.-_"), timeout_s=10))
    except EngineError as error:
        if error.status == 404:
            return None
        raise


def containers(label: str) -> List[Dict[str, Any]]:
    """All containers, running or not, with the label (`key` or `key=value`). Raises EngineError."""
    filters = quote(json.dumps({"label": [label]}))
    return list(call("GET", "/containers/json?all=1&filters=" + filters) or [])


def inspect(container: str, timeout_s: float = 10) -> Dict[str, Any]:
    """Document of one container. Raises EngineError, with status 404 if it does not exist."""
    return dict(call("GET", "/containers/%s/json" % quote(container, safe=""), timeout_s=timeout_s))


def exit_code_of_removed(container: str, since: float, timeout_s: float = 10) -> Optional[int]:
    """Exit code of a container that is removed already, from the engine's recent events; None if it has none."""
    filters = quote(json.dumps({"container": [container], "type": ["container"], "event": ["die"]}))
    query = "since=%.3f&until=%.3f&filters=%s" % (since, time.time(), filters)
    try:
        found = call("GET", "/events?" + query, timeout_s=timeout_s)
        rows = [json.loads(line) for line in found.splitlines()] if isinstance(found, str) else [found]
        return int(rows[-1]["Actor"]["Attributes"]["exitCode"])
    except (EngineError, ValueError, TypeError, LookupError):
        return None


def start(container: str) -> Tuple[int, str]:
    """Start a container: (0, ""), or the exit code that `docker start` has (125 to 127) and the engine's message.

    Raises EngineError if the engine is slow: the container may start later.
    """
    try:
        call("POST", "/containers/%s/start" % quote(container, safe=""), timeout_s=START_S)
    except EngineError as error:
        if error.slow:
            raise
        text = str(error)
        if "executable file not found" in text or "no such file or directory" in text:
            return 127, text
        if "permission denied" in text:
            return 126, text
        return 125, text
    return 0, ""


def kill(container: str, signal_name: str) -> None:
    """Signal the first process of a container; one that is not running is no error. Raises EngineError."""
    try:
        call("POST", "/containers/%s/kill?signal=%s" % (quote(container, safe=""), quote(signal_name)), timeout_s=30)
    except EngineError as error:
        if error.status not in (404, 409):
            raise


def remove(container: str, timeout_s: float = 60) -> None:
    """Remove a container, running or not, with its anonymous volumes. Raises EngineError."""
    try:
        call("DELETE", "/containers/%s?force=1&v=1" % quote(container, safe=""), timeout_s=timeout_s)
    except EngineError as error:
        if error.status != 404:
            raise


def logs_tail(container: str, lines: int = 50) -> bytes:
    """Last lines that a container printed outside the rank's log (banner of an entry point, failed exec); or empty."""
    path = "/containers/%s/logs?stdout=1&stderr=1&tail=%d" % (quote(container, safe=""), lines)
    try:
        return _demultiplex(unix_http.request(_socket_path(), "GET", path, 3)[1])
    except OSError:
        return b""


def _demultiplex(raw: bytes) -> bytes:
    """Strip the 8-byte stream headers (stream, 0, 0, 0, length big-endian) of a container without a tty."""
    out, at = bytearray(), 0
    while at + 8 <= len(raw):
        size = int.from_bytes(raw[at + 4 : at + 8], "big")
        out += raw[at + 8 : at + 8 + size]
        at += 8 + size
    return bytes(out)
