"""Mark of a host that takes no new runs. Runs that are there go on, with their restarts, until the host is closed.

The module `host_drain` writes it as root, where it outlives a reboot. It has an end, so that it does not outlive a
controller that died. Kubernetes and Slurm call this state drain.
"""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any, Dict, NamedTuple, Optional

from .protocol import CONTROL
from .refusal import Refused
from .state_directory import OF_HOST

MARK = "/var/lib/ddp-play-drain.json"
MAX_BYTES = 4096
MAX_TEXT = 200
DRAINED = "the host takes no new runs"


class Drain(NamedTuple):
    """Why a host takes no new runs, and whether it takes no restarts of runs that are there either."""

    why: str
    closed: bool


def check(spec: Dict[str, Any]) -> None:
    """Raise Refused if the host takes no new runs and this is one, not the next attempt of a run that is here."""
    why = problem_for(spec)
    if why:
        raise Refused(why, kind="slots", hint="the same command with --wait waits until the host takes runs again")


def problem_for(spec: Dict[str, Any]) -> str:
    """Why the host does not take this attempt; empty for that of a run whose last attempt was here."""
    drain = find()
    if drain is None or (spec.get("was_here") and not drain.closed):
        return ""
    return drain.why


def problem() -> str:
    """Why the host takes no new runs; empty if it takes them."""
    drain = find()
    return drain.why if drain is not None else ""


def find() -> Optional[Drain]:
    """The drain of this host; None if it takes new runs. A mark that cannot be read counts."""
    path = os.path.join(os.environ[OF_HOST], "drain.json") if os.environ.get(OF_HOST) else MARK
    try:
        data = _read(path)
    except OSError as error:
        return None if isinstance(error, FileNotFoundError) else _unknown(path, str(error.strerror))
    if data is None:
        return None
    try:
        fields = json.loads(data)
        until, closed, reason = float(fields["until"]), bool(fields["closed"]), str(fields["reason"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return _unknown(path, "its content is not that of a mark")
    if until <= time.time():
        return None
    return Drain("%s: %s" % (DRAINED, CONTROL.sub("?", reason)[:MAX_TEXT]), closed)


def _read(path: str) -> Optional[bytes]:
    """The mark; None for a file that neither root nor this user made. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        ours = stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid())
        return os.read(fd, MAX_BYTES) if ours else None
    finally:
        os.close(fd)


def _unknown(path: str, why: str) -> Drain:
    text = "%s: %s cannot be read (%s); if nobody reboots the host: ddp-play reboot -i INVENTORY --open" % (
        DRAINED,
        path,
        why,
    )
    return Drain(text, closed=False)
