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
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ddp_play.bundle.outcome import RunStatus, error_fields
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.bundle.summary import counted
from ddp_play.errors import DdpPlayError, InternalError, UsageError
from ddp_play.planning.job_values import words
from ddp_play.run.hook_process import WEBHOOK_ENV, in_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

START, RESTART, END = "start", "restart", "end"
WEBHOOK = "ddp_job_webhook"
# Fields of run.json that every event has.
KNOWN = ("job", "owner", "controller", "world_size", "hosts", "attempt", "created", "started", "ended")


def checked_url(value: object, source: str = WEBHOOK) -> str:
    """The URL, or an empty text. UsageError without the value; `source`: where it is from."""
    text = str(value or "")
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        if not text or (parts.scheme in ("http", "https") and parts.hostname):
            return text
    hint = "keep the URL in a vault or in a file: -e @FILE" if source == WEBHOOK else f"{source}=https://HOST/PATH"
    raise UsageError(f"{source} is no http or https URL", hint=hint)


@dataclass(frozen=True, slots=True)
class RunHooks:
    """Whom a run tells. Without a command and a URL, nobody. `has_lost_url`: it had one, which is not known here."""

    command: tuple[str, ...] = ()
    url: str = field(default="", repr=False)
    has_lost_url: bool = False

    def tell(self, event: str, paths: RunPaths, **more: Any) -> None:
        """Start the process that tells this event. Never raises an error."""
        if not (self.command or self.url or self.has_lost_url):
            return
        with contextlib.suppress(OSError):  # no process is to be had
            message = message_of(event, paths, read_json(paths.run), more)
            target = {"command": self.command, "url": self.url, "has_lost_url": self.has_lost_url}
            order = {**target, "message": message, "log": str(paths.hooks_log)}
            with in_memory(json.dumps(order).encode()) as stdin:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "ddp_play.run.hook_process"],
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd=paths.root if paths.root.is_dir() else "/",
                )
            child.returncode = 0  # nobody waits for it


def tell_refused(command: object, url: object, paths: RunPaths, error: DdpPlayError) -> None:
    """Tell the end of a run that has no plan, by `ddp_job_hook` and `ddp_job_webhook` as far as they are right.

    The message is that of run.json, also where it could not be written.
    """
    found: Any = ()
    with contextlib.suppress(ValueError):  # a quote without its other one
        found = words(command) or ()
    is_command = isinstance(found, list | tuple) and all(isinstance(word, str) for word in found)
    known_url = ""
    with contextlib.suppress(UsageError):
        known_url = checked_url(url)
    fields = error_fields(error, read_json(paths.run))
    end = {name: fields[name] for name in ("status", "exit_class", "exit_code")}
    end |= {name: fields["verdict"][name] for name in ("message", "hint")}
    RunHooks(tuple(found) if is_command else (), known_url).tell(END, paths, **end)


def end_by(error: Exception, paths: RunPaths) -> dict[str, Any]:
    """Fields of the message about the end that this error is; none for one that is in run.json.

    run.json does not tell an error of ddp-play itself: ranks may go on. Its text stays here, whatever it contains.
    """
    if isinstance(error, DdpPlayError):
        return {}
    return {
        "status": str(RunStatus.FAILED),
        "exit_class": InternalError.kind,
        "exit_code": InternalError.exit_code,
        "message": f"ddp-play itself failed ({type(error).__name__})",
        "hint": f"see {paths.supervisor_log}; if ranks still run, ddp-play attach {paths.run_id} takes over",
    }


def hooks_of(paths: RunPaths) -> RunHooks:
    """The hooks of a run whose supervisor is gone: its command, and the URL that the environment has now.

    The URL of the run was never written.
    """
    url = ""
    with contextlib.suppress(UsageError):  # `attach` has refused it
        url = checked_url(os.environ.get(WEBHOOK_ENV), WEBHOOK_ENV)
    has_lost_url = not url and bool(read_json(paths.run).get("webhook"))
    return RunHooks(tuple(read_json(paths.job).get("hook") or ()), url, has_lost_url)


def webhook_problem(paths: RunPaths) -> str:
    """Why a process that takes over the run will not call its webhook; empty if it will, or if there is none.

    UsageError if the environment has something else than a URL.
    """
    if checked_url(os.environ.get(WEBHOOK_ENV), WEBHOOK_ENV) or not hooks_of(paths).has_lost_url:
        return ""
    return (
        f"the webhook of run {paths.run_id} is not called any more: its URL is stored nowhere; "
        f"{WEBHOOK_ENV} in the environment of this command gives it"
    )


def message_of(event: str, paths: RunPaths, document: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The message, as JSON. `text` is a sentence for people, and the name under which chat programs look for one."""
    verdict = document.get("verdict") or {}
    message: dict[str, Any] = {
        "event": event,
        "run": paths.run_id,
        **{name: document[name] for name in KNOWN if document.get(name) is not None},
        "bundle": str(paths.root),
    }
    if event == END:
        message |= {"status": str(document.get("status")), "report": str(paths.report)}
        message |= {name: document.get(name) for name in ("exit_class", "exit_code")}
        message |= {
            name: verdict[name] for name in ("message", "hint", "rank", "host") if verdict.get(name) is not None
        }
    message |= more
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
