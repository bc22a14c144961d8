"""Process that tells one event of a run, by command and webhook: `python -m ddp_play.run.hook_process` < ORDER.

What came of it is in hooks.log of the bundle, without the URL.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

LIMIT_S = 30.0  # for the command, and for the webhook
OUTPUT_BYTES = 16 << 10  # the end of what the command prints, in the log
MOST_OUTPUT_BYTES = 64 << 20  # a command that prints more is ended
PIECE_BYTES = 64 << 10
WEBHOOK_ENV = "DDP_PLAY_WEBHOOK"
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
    elif order.get("has_lost_url"):
        _note(
            log, message["event"], f"webhook: not called, its URL is stored nowhere ({WEBHOOK_ENV} gives it to attach)"
        )
    if order["command"]:
        _note(log, message["event"], f"command: {execute(order['command'], message)}")


def post(url: str, message: dict[str, Any]) -> str:
    """Send the message as JSON. Returns what came of it, without the URL, which the texts of some errors contain."""
    found: list[str] = []
    sender = threading.Thread(target=lambda: found.append(_post(url, message)), daemon=True)
    sender.start()
    sender.join(LIMIT_S + 1)  # the timeout of a socket is that of each piece of the answer
    return found[0] if found else f"failed: no whole answer within {LIMIT_S:g} s"


def _post(url: str, message: dict[str, Any]) -> str:
    import urllib.error  # noqa: PLC0415 - the run's own process has this module too, and sends nothing
    import urllib.request  # noqa: PLC0415

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
    """Run the command with the message on standard input. Returns how it ended, and the end of its output."""
    variables = {PREFIX + name.upper(): str(message[name]) for name in VARIABLES if message.get(name) is not None}
    environment = {name: value for name, value in os.environ.items() if name != WEBHOOK_ENV}
    try:
        with in_memory(json.dumps(message).encode()) as stdin:
            child = subprocess.Popen(
                command,
                env={**environment, **variables},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:  # a null byte in a word or in the message
        return f"failed: {error.strerror if isinstance(error, OSError) else error}"
    with child:
        output, num_bytes, ended = _followed(child, child.stdout.fileno() if child.stdout else 0)
    how = ended or f"exit code {child.returncode}"
    cut = f", the last {OUTPUT_BYTES >> 10} KiB of {num_bytes} bytes of output" if num_bytes > OUTPUT_BYTES else ""
    text = output.decode("utf-8", "replace").strip()
    return f"{how}{cut}\n{text}" if text else how + cut


def _followed(child: subprocess.Popen[bytes], fd: int) -> tuple[bytes, int, str]:
    """The end of the command's output (`fd`), its length, and why its process group was ended, if it was."""
    output, num_bytes = b"", 0
    until = time.monotonic() + LIMIT_S
    while (left_s := until - time.monotonic()) > 0 and num_bytes <= MOST_OUTPUT_BYTES:
        if not select.select([fd], [], [], left_s)[0]:
            break
        piece = os.read(fd, PIECE_BYTES)
        if not piece:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, until - time.monotonic()))
                return output, num_bytes, ""
            break
        num_bytes += len(piece)
        output = (output + piece)[-OUTPUT_BYTES:]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    most = f"ended after {MOST_OUTPUT_BYTES >> 20} MiB of output"
    return output, num_bytes, most if num_bytes > MOST_OUTPUT_BYTES else f"ended after {LIMIT_S:g} s"


def in_memory(data: bytes) -> BinaryIO:
    """A file without a name, to read from its start. A pipe would hold 64 KiB, and 4 of a user who has many."""
    file = os.fdopen(os.memfd_create("ddp-play-hook"), "w+b")
    file.write(data)
    file.seek(0)
    return file


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
