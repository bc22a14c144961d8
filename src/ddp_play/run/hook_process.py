"""Process that tells one event of a run, by command and webhook: `python -m ddp_play.run.hook_process` < ORDER.

What came of it is in hooks.log of the bundle, without the URL.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

LIMIT_S = 30.0  # for the command, and for the webhook
OUTPUT_BYTES = 16 << 10  # of the command, in the log
MAX_LOG_BYTES = 1 << 20
PREFIX = "DDP_PLAY_"
# Fields of the message that the command has as variables too.
VARIABLES = ("event", "run", "attempt", "status", "exit_class", "exit_code", "message", "bundle")


def main() -> None:
    """Tell the order on standard input, and log what came of it."""
    order = json.loads(sys.stdin.buffer.read())
    message, log = order["message"], Path(order["log"])
    if order["url"]:
        _note(log, message["event"], f"webhook: {post(order['url'], message)}")
    if order["command"]:
        _note(log, message["event"], f"command: {execute(order['command'], message)}")


def post(url: str, message: dict[str, Any]) -> str:
    """Send the message as JSON. Returns what came of it, without the URL, which the texts of some errors contain."""
    data = json.dumps(message).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "ddp-play"}
    try:
        request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - checked: http or https
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
            return f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        error.close()
        return f"failed: HTTP {error.code}"
    except urllib.error.URLError as error:
        reason = error.reason
        return f"failed: {reason.strerror or type(reason).__name__ if isinstance(reason, OSError) else 'no connection'}"
    except Exception as error:  # noqa: BLE001 - its text may contain the URL
        return f"failed: {type(error).__name__}"


def execute(command: list[str], message: dict[str, Any]) -> str:
    """Run the command with the message on standard input. Returns its exit code and the end of its output."""
    variables = {PREFIX + name.upper(): str(message[name]) for name in VARIABLES if message.get(name) is not None}
    try:
        child = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"failed: {error.strerror}"
    with child:
        try:
            output, _ = child.communicate(json.dumps(message).encode(), timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            return f"ended after {LIMIT_S:g} s"
    ended = f"exit code {child.returncode}"
    text = output[-OUTPUT_BYTES:].decode("utf-8", "replace").strip()
    return f"{ended}\n{text}" if text else ended


def _note(log: Path, event: str, text: str) -> None:
    """Append to the log. A full disk, a log of a megabyte or a bundle that was removed end nothing."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {event} {text}\n"
    with contextlib.suppress(OSError):
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            if os.fstat(fd).st_size < MAX_LOG_BYTES:
                file.write(line.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
