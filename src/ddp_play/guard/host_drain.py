"""Mark of a host that takes no new runs. Runs that are there go on, with their restarts, until the host is closed.

The module `host_drain` writes it as root, where it outlives a reboot. It has an end, so that it does not outlive a
controller that died. Kubernetes and Slurm call this state drain.

A host that failed its checks is in quarantine: a mark of its own that has no end, so that neither undoes the other. The
module `host_quarantine` writes it, as root for everybody, or as a user who keeps only the own runs away.
"""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any, Dict, List, NamedTuple, Optional

from .protocol import CONTROL
from .refusal import Refused
from .state_directory import OF_HOST, UnusableError, choose

MARK = "/var/lib/ddp-play-drain.json"
QUARANTINE = "/var/lib/ddp-play-quarantine.json"
OWN_QUARANTINE = "quarantine-own.json"  # in the state directory of the user whose runs it keeps away
MAX_BYTES = 4096
MAX_TEXT = 200
MAX_CHECKS = 50
DRAINED = "the host takes no new runs"
AGAIN = "the same command again leaves the host out where the others are enough; once it is mended: %s"
RELEASE = "ddp-play check -i INVENTORY --release"


class Drain(NamedTuple):
    """Why a host takes no new runs, and whether it takes no restarts of runs that are there either."""

    why: str
    closed: bool
    release: str = ""  # what ends a quarantine, which has no end, so that nobody may wait for it


class Quarantine(NamedTuple):
    """Why, since when and by whom a host is in quarantine, and what has to pass before it is released."""

    why: str
    own: bool = False  # only this user's runs are kept away
    level: str = ""  # of the check that found it; empty if somebody decided it without one
    checks: List[str] = []  # noqa: RUF012 - nobody changes it
    num_hosts: int = 0  # that the host was compared with, itself included


def check(spec: Dict[str, Any]) -> None:
    """Raise Refused if the host takes no new runs and this is one, not the next attempt of a run that is here."""
    drain = _drain_for(spec)
    if drain is not None:
        raise _refusal(drain)


def refuse_quarantined() -> None:
    """Raise Refused on a host in quarantine, for a run that would wait without an end."""
    drain = find()
    if drain is not None and drain.release:
        raise _refusal(drain)


def problem_for(spec: Dict[str, Any]) -> str:
    """Why the host does not take this attempt; empty for that of a run whose last attempt was here."""
    drain = _drain_for(spec)
    return drain.why if drain is not None else ""


def problem() -> str:
    """Why the host takes no new runs; empty if it takes them."""
    drain = find()
    return drain.why if drain is not None else ""


def find() -> Optional[Drain]:
    """The drain of this host; None if it takes new runs. A mark that cannot be read counts."""
    path = _path(MARK, "drain.json")
    try:
        fields = _fields(path)
        if fields is None or float(fields["until"]) <= time.time():
            return _in_quarantine()
        return Drain("%s: %s" % (DRAINED, _clean(fields["reason"])), bool(fields["closed"]))
    except OSError as error:
        return _unknown(path, str(error.strerror))
    except (ValueError, KeyError, TypeError, RecursionError):
        return _unknown(path, "its content is not that of a mark")


def quarantine() -> Optional[Quarantine]:
    """The quarantine of this host, for everybody or else for this user's runs. A mark that cannot be read counts."""
    found = _read_quarantine(_path(QUARANTINE, "quarantine.json"), own=False)
    if found is None:
        try:
            found = _read_quarantine(os.path.join(choose().path, OWN_QUARANTINE), own=True)
        except (UnusableError, OSError):  # a run cannot be there either, and says why
            return None
    return found


def _read_quarantine(path: str, own: bool) -> Optional[Quarantine]:
    try:
        fields = _fields(path)
        if fields is None:
            return None
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(float(fields["since"])))
        whose = " for the own runs of this user" if own else ""
        who = "%s from %s" % (_clean(fields["by"]), _clean(fields["controller"]))
        why = "in quarantine%s since %s (%s): %s" % (whose, day, who, _clean(fields["reason"]))
        names = [_clean(name) for name in list(fields.get("checks") or [])[:MAX_CHECKS]]
        return Quarantine(why, own, _clean(fields.get("level") or ""), names, int(fields.get("num_hosts") or 0))
    except OSError as error:
        why = str(error.strerror)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        why = "its content is not that of a mark"
    return Quarantine("in quarantine: %s cannot be read (%s)" % (path, why), own)


def _in_quarantine() -> Optional[Drain]:
    """As a drain: the run that is there may start again, if its planner finds no other host."""
    found = quarantine()
    if found is None:
        return None
    become = "" if found.own or os.geteuid() == 0 else " -b"
    return Drain("%s: %s" % (DRAINED, found.why), closed=False, release=RELEASE + become)


def _drain_for(spec: Dict[str, Any]) -> Optional[Drain]:
    drain = find()
    return None if drain is None or (spec.get("was_here") and not drain.closed) else drain


def _refusal(drain: Drain) -> Refused:
    if drain.release:
        return Refused(drain.why, hint=AGAIN % drain.release)
    return Refused(drain.why, kind="slots", hint="the same command with --wait waits until the host takes runs again")


def _path(path: str, name: str) -> str:
    return os.path.join(os.environ[OF_HOST], name) if os.environ.get(OF_HOST) else path


def _clean(text: Any) -> str:
    return CONTROL.sub("?", str(text))[:MAX_TEXT]


def _fields(path: str) -> Optional[Dict[str, Any]]:
    """Content of a mark; None if there is none. Raises OSError, and ValueError or TypeError for what is no mark."""
    try:
        data = _read(path)
    except FileNotFoundError:
        return None
    if data is None:
        return None
    fields = json.loads(data)
    if not isinstance(fields, dict):
        raise TypeError("not an object")
    return fields


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
    remedy = "ddp-play reboot -i INVENTORY --open --limit HOST"
    text = "%s: %s cannot be read (%s); if nobody reboots the host: %s" % (DRAINED, path, why, remedy)
    return Drain(text, closed=False)
