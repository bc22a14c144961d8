"""Mark of a host that takes no new runs. Runs that are there go on, with their restarts.

The module `host_drain` writes it as root, below /run, so that it does not outlive the boot; it also has an end, so that
it does not outlive a controller that died. Kubernetes and Slurm call this state drain.
"""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any, Dict, Optional

from .protocol import CONTROL
from .refusal import Refused
from .state_directory import OF_HOST

MARK = "/run/ddp-play/drain.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MAX_BYTES = 4096
MAX_TEXT = 200
DRAINED = "the host takes no new runs"


def check(spec: Dict[str, Any]) -> None:
    """Raise Refused if the host takes no new runs and this is one, not the next attempt of a run that is here."""
    why = problem_for(spec)
    if why:
        raise Refused(why, kind="slots", hint="ddp-play run --wait waits until the host takes runs again")


def problem_for(spec: Dict[str, Any]) -> str:
    """Why the host does not take this run; empty for the next attempt of a run that is here."""
    return "" if spec.get("continues") else problem()


def problem() -> str:
    """Why the host takes no new runs; empty if it takes them."""
    path = os.path.join(os.environ[OF_HOST], "drain.json") if os.environ.get(OF_HOST) else MARK
    try:
        data = _read(path)
    except OSError as error:
        return "" if isinstance(error, FileNotFoundError) else _unknown(path, str(error.strerror))
    if data is None:
        return ""
    try:
        fields = json.loads(data)
        until, boot, reason = float(fields["until"]), str(fields["boot"]), str(fields["reason"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return _unknown(path, "its content is not that of a mark")
    if until <= time.time() or boot != boot_id():
        return ""
    end = time.strftime("%H:%M", time.localtime(until))
    return "%s: %s (until %s at the latest)" % (DRAINED, CONTROL.sub("?", reason)[:MAX_TEXT], end)


def boot_id() -> str:
    """Number of this boot; empty where the kernel has none."""
    try:
        with open(BOOT_ID) as file:
            return file.read().strip()
    except OSError:
        return ""


def _read(path: str) -> Optional[bytes]:
    """The mark; None for a file that neither root nor this user made. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        ours = stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid())
        return os.read(fd, MAX_BYTES) if ours else None
    finally:
        os.close(fd)


def _unknown(path: str, why: str) -> str:
    return "%s: %s cannot be read (%s); remove it if nobody reboots the host" % (DRAINED, path, why)
