"""What a run tells others: a command and a webhook when its ranks start, before a restart and at its end.

Each event is told by a process of its own (`hook_process`). Nobody waits for it, and a run does not fail because of it.
The URL may contain a secret, so it exists in memory only and is handed over on standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.bundle.summary import counted
from ddp_play.errors import UsageError
from ddp_play.planning.job_values import words

if TYPE_CHECKING:
    from collections.abc import Mapping

START, RESTART, END = "start", "restart", "end"
# Fields of run.json that every event has.
KNOWN = ("job", "owner", "controller", "world_size", "hosts", "attempt", "created", "started", "ended")


def checked_url(value: object) -> str:
    """The URL of `ddp_job_webhook`, or an empty text. UsageError without the value."""
    text = str(value or "")
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        if not text or (parts.scheme in ("http", "https") and parts.hostname):
            return text
    raise UsageError("ddp_job_webhook is no http or https URL", hint="keep the URL in a vault or in a file: -e @FILE")


@dataclass(frozen=True, slots=True)
class RunHooks:
    """Whom a run tells. Without a command and a URL, nobody."""

    command: tuple[str, ...] = ()
    url: str = field(default="", repr=False)

    def tell(self, event: str, paths: RunPaths, **more: Any) -> None:
        """Start the process that tells this event. Never raises an error."""
        if not (self.command or self.url):
            return
        with contextlib.suppress(OSError):  # no process is to be had
            message = message_of(event, paths, read_json(paths.run), more)
            order = {"command": self.command, "url": self.url, "message": message, "log": str(paths.hooks_log)}
            with _in_memory(json.dumps(order).encode()) as stdin:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "ddp_play.run.hook_process"],
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd=paths.root,
                )
            child.returncode = 0  # nobody waits for it


def _in_memory(data: bytes) -> BinaryIO:
    """A file without a name, to read from its start. A pipe would hold 64 KiB, and 4 of a user who has many."""
    file = os.fdopen(os.memfd_create("ddp-play-hook"), "w+b")
    file.write(data)
    file.seek(0)
    return file


def tell_refused(command: object, url: object, paths: RunPaths) -> None:
    """Tell the end of a run that has no plan, by `ddp_job_hook` and `ddp_job_webhook` as far as they are right."""
    found: Any = ()
    with contextlib.suppress(ValueError):  # a quote without its other one
        found = words(command) or ()
    is_command = isinstance(found, list | tuple) and all(isinstance(word, str) for word in found)
    known_url = ""
    with contextlib.suppress(UsageError):
        known_url = checked_url(url)
    RunHooks(tuple(found) if is_command else (), known_url).tell(END, paths)


def hooks_of(paths: RunPaths) -> RunHooks:
    """The hooks of a run whose supervisor is gone: its command. The URL was never written."""
    return RunHooks(tuple(read_json(paths.job).get("hook") or ()))


def message_of(event: str, paths: RunPaths, document: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The message, as JSON. `text` is a sentence for people, and the name under which chat programs look for one."""
    verdict = document.get("verdict") or {}
    message: dict[str, Any] = {
        "event": event,
        "run": paths.run_id,
        **{name: document[name] for name in KNOWN if document.get(name) is not None},
        "bundle": str(paths.root),
        **more,
    }
    if event == END:
        message |= {"status": str(document.get("status")), "report": str(paths.report)}
        message |= {name: document.get(name) for name in ("exit_class", "exit_code")}
        message |= {
            name: verdict[name] for name in ("message", "hint", "rank", "host") if verdict.get(name) is not None
        }
    return {**message, "text": _sentence(message)}


def _sentence(message: Mapping[str, Any]) -> str:
    name, hosts = message["run"], len(message.get("hosts") or ())
    if message["event"] == START:
        ranks = counted(int(message.get("world_size") or 0), "rank")
        return f"run {name} started: {ranks} on {counted(hosts, 'host')}"
    if message["event"] == RESTART:
        return f"run {name} starts again, attempt {message.get('attempt')}: {message.get('reason')}"
    why = f": {message['message']}" if message.get("message") else ""
    return f"run {name} {message['status']}{why}"
