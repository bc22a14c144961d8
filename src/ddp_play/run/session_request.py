"""Requests to the session of an inventory, from the commands of the same user. Without a session nothing changes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.callers_process import CallersProcess
from ddp_play.ansible.descriptor_messages import connect, receive, send
from ddp_play.run.session_place import SessionPlace, build

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

# A session answers at once, on a busy machine after a second; a run does not wait longer for one that hangs.
ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the session did: the pid of the run's background process, or why there is none (empty: no session)."""

    pid: int = 0
    note: str = ""


def start_run(place: SessionPlace, paths: RunPaths, passwords: bytes, *, take_over: bool) -> Answer:
    """Let the session start the run's background process."""
    if not place.address.exists():
        return Answer()
    request = {
        "order": "run",
        "build": build(),  # before it waits for what we send
        "run_dir": str(paths.root),
        "take_over": take_over,
        "process": CallersProcess.this().to_json(),
    }
    try:
        connection = connect(str(place.address), ANSWER_S)
    except ConnectionRefusedError:
        _remove_dead(place)
        return Answer(note="the session of this inventory has died; this run goes without it")
    except OSError as error:
        return Answer(note=f"the session of this inventory is not used: {error}")
    with connection:
        try:
            return _start(connection, request, paths, passwords)
        except (OSError, EOFError, ValueError, TypeError) as error:
            why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
            return Answer(note=f"the session of this inventory is not used: {why}")


def _remove_dead(place: SessionPlace) -> None:
    """Remove the socket that a dead session has left. A living one, of this machine or another, has its lock."""
    with contextlib.suppress(OSError), place.lock.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        place.address.unlink()


def _start(connection: Any, request: dict[str, Any], paths: RunPaths, passwords: bytes) -> Answer:
    reading, writing = os.pipe()
    try:
        with paths.supervisor_log.open("ab") as log:
            send(connection, request, (reading, log.fileno()))
    finally:
        os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        answer, _ = receive(connection)
        if not answer.get("pid"):
            return Answer(note=f"the session of this inventory is not used: {answer.get('refused', 'no reason given')}")
        send(connection, {"go": True})
        with contextlib.suppress(BrokenPipeError):  # it ended at once: the caller sees that it is gone
            pipe.write(passwords)
    return Answer(int(answer["pid"]))


def order(place: SessionPlace, name: str) -> dict[str, Any] | None:
    """The answer of the session to `status`, `refresh` or `end`; None if there is no session."""
    try:
        with connect(str(place.address), ANSWER_S) as connection:
            send(connection, {"order": name})
            return receive(connection)[0]
    except (OSError, EOFError, ValueError, TypeError):
        return None
