"""Shape of the frames that a host may send: known kinds, fields of the right types, texts of limited length. Pure.

A host may run anything: an older version, a program of its owner. What fits is passed on, the rest ends its channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import MAX_SOURCE_PIECES, UNREADABLE, Header

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Longer texts of a host are cut: messages, reasons, lines of the kernel log, paths.
MAX_TEXT = 4096
MAX_ANALYSIS = 64 * 1024  # the text of the flight recorder's analysis
ARTIFACT = "artifact"
# Changes of one rank's state that are events; a rank is created, runs and exits. The same for a host's disk.
MAX_CHANGES = 20


class HostFrameError(ValueError):
    """A host sent what no version of the program on hosts sends; the message says what."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number in a range, or None."""

    least: int = 0
    most: int = 2**63


@dataclass(frozen=True, slots=True)
class Record:
    """An object with these fields; others are allowed and never read."""

    required: Mapping[str, Any] = field(default_factory=dict)
    optional: Mapping[str, Any] = field(default_factory=dict)
    max_text: int = MAX_TEXT  # of a frame: longer texts in it are cut


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of these."""

    of: Any


@dataclass(frozen=True, slots=True)
class ByName:
    """An object with any names, all values alike."""

    of: Any
    numbered: bool = False  # the names are numbers of ranks


EXIT_CODE, SIGNAL = Integer(0, 255), Integer(0, 192)
RANK = Record(
    optional={
        "state": ("created", "running", "exited"),
        "started": float,
        "ended": float,
        "exit_code": EXIT_CODE,
        "signal": SIGNAL,
        "oom": bool,
        "stopped": bool,
        "detail": str,
        "kernel": Rows(str),
    }
)
STATE_FIELDS = {
    "reason": str,
    "stopping_at": float,
    "key": str,
    "traffic_at": float,
    "kernel_problem": str,
    "disk_problem": str,
    "ranks": ByName(RANK, numbered=True),
}
STATE = Record({"phase": str}, STATE_FIELDS)
# Without fields where the host does not know the run.
STATE_OR_NONE = Record(optional={"phase": str, **STATE_FIELDS})
AHEAD = Record(
    {"token": str, "run": str, "waiting_s": float},
    {"owner": str, "controller": str, "need": Integer()},
)
COUNTERS = ByName(Record({"rx": Integer(), "tx": Integer()}))
PIECE = Record({"rank": Integer(), "at": Integer()})
SHAPES: dict[str, Record] = {
    "facts": Record(),
    "opened": Record(
        {"key": str, "dir": str, "secrets": str, "clock": float, "uid": Integer(0, 2**32), "guard_alive": bool},
        {
            "uptime": float,
            "state": STATE_OR_NONE,
            "protocol": Integer(),
            "version": str,
            "has_files": bool,
            "has_logs": bool,
        },
    ),
    "beat": Record({"guard_gone": bool}, {"uptime": float}),
    "state": Record({"state": STATE}),
    "refused": Record({"message": str}, {"order": str, "error": str, "hint": str}),
    "log": PIECE,
    "metrics": PIECE,
    "nccl": PIECE,
    "samples": Record({"uptime": float}),
    "file": Record({"file": str, "last": bool}, {"rank": Integer(), "path": str}),
    "claimed": Record(),
    "leased": Record({"port": Integer(1, 65535)}),
    "queued": Record({"ready": bool}, {"clock": float, "problem": str, "ahead": Rows(AHEAD)}),
    "staged": Record({"missing": Rows(Integer(0, MAX_SOURCE_PIECES))}),
    "activity_read": Record(),
    "check_read": Record(),
    "check_reach": Record(),
    "check_end": Record(),
    "prepared": Record(),
    "listening": Record({"port": Integer(1, 65535)}),
    "lock_held": Record(),
    "lock_seen": Record({"problem": str}),
    "lock_dropped": Record(),
    "probed": Record({"failed": Rows(Record({"address": str, "port": Integer(0, 65535), "problem": str}))}),
    "going": Record(optional={"counters": COUNTERS}),
    "stopping": Record(),
    "captured": Record({"ranks": ByName(Record(optional={"state": str, "cpu": float}), numbered=True)}),
    "drained": Record(optional={"counters": COUNTERS, "logs": Rows(Record({"rank": Integer(), "why": str}))}),
    "fetched": Record(
        {
            "missing": Rows(Record({"path": str, "why": str}, {"size": Integer()})),
            "artifacts": Rows(Record({"path": str}, {"size": Integer(), "sha256": str})),
        },
        {"links": Rows(Record({"path": str, "link_to": str}))},
    ),
    "progressed": Record(
        optional={"newest": Record({"path": str, "mtime_ns": Integer(), "size": Integer()}, {"age_s": float})}
    ),
    "analysed": Record({"text": str}, max_text=MAX_ANALYSIS),
    "ended": Record({"left": Rows(str)}),
    "cleaned": Record({"left": Rows(str)}, {"kept": Rows(str), "alive": Rows(str)}),
}

# Answers of the verbs `runs` and `clean`, which `ps -i` and `gc` ask. Earlier versions lack what is optional.
RUN_ROW = Record(
    {"run": str, "attempt": Integer(), "path": str, "phase": str, "guard_alive": bool, "owner": str},
    {
        **dict.fromkeys(("token", "host", "reason", "unknown", "elsewhere", "controller"), str),
        **dict.fromkeys(("attended", "uncollected"), bool),
        "ranks": ByName(RANK, numbered=True),
        "since": float,
    },
)
CONTAINER_ROW = Record(
    dict.fromkeys(("id", "run", "attempt", "owner", "state"), str), dict.fromkeys(("token", "host"), str)
)
USED_ROW = Record(
    {**dict.fromkeys(("run", "token", "owner", "host"), str), "attempts": Integer(), "s": float, "slot_s": float}
)
SLOT_NAMES = Rows(str)
ACTIVE_RUN = Record(
    {"run": str, "attempt": Integer(), "owner": str, "user": str, "age_s": float, "ranks": ByName(Integer())},
    {**dict.fromkeys(("token", "phase", "unreadable"), str), "cpu": float, "memory": Integer(), "slots": SLOT_NAMES},
)
ACTIVITY = Record(
    {"runs": Rows(ACTIVE_RUN)},
    {
        **dict.fromkeys(("cores", "memory", "memory_total"), Integer()),
        "cpu": float,
        "gpus": Rows(float),
        "slots_of_others": SLOT_NAMES,
    },
)
ANSWERS = {
    "activity": ACTIVITY,
    "runs": Record({"runs": Rows(RUN_ROW), "containers": Rows(CONTAINER_ROW)}, {"sources_bytes": Integer()}),
    "clean": Record({"left": Rows(str)}),
    "usage": Record(
        {"runs": Rows(USED_ROW), "record": str, "gpus": Integer()}, {"oldest_s": float, "slots": Integer()}
    ),
    "facts": Record(),  # read, and refused where they do not fit, by `planning.host_facts`
}


def checked_answer(verb: str, answer: Any) -> dict[str, Any]:
    """The answer of a host to one of these verbs, with its texts cut to MAX_TEXT. Raises HostFrameError."""
    shape = ANSWERS[verb]
    if problem := _problem(answer, shape):
        raise HostFrameError(f"an answer to {verb} with {problem}")
    cut: dict[str, Any] = _cut(answer, shape.max_text)
    return cut


def checked(header: Header, ranks: Collection[int], key: str) -> Header | None:
    """The header with its texts cut to MAX_TEXT; None for a kind of another version. Raises HostFrameError.

    `ranks`: those of the host. `key`: that of the run; guards of earlier versions report states without one.
    """
    kind = header.get("t")
    if kind == UNREADABLE:
        raise HostFrameError(str(header.get("why")))
    if not isinstance(kind, str):
        raise HostFrameError(f"a frame of the kind {_shown(kind)}")
    shape = SHAPES.get(kind)
    if shape is None:
        return None
    if problem := _problem(header, shape):
        raise HostFrameError(f"a frame {kind} with {problem}")
    rank = header.get("rank")
    if rank is not None and rank not in ranks:
        raise HostFrameError(f"a frame {kind} of rank {rank}, which runs on another host or not at all")
    for found in (header.get("key"), (header.get("state") or {}).get("key")):
        if found not in (None, key):
            raise HostFrameError(f"a frame {kind} of run {_shown(found)}, which is not {key}")
    cut: Header = _cut(header, shape.max_text)
    return cut


def cut_texts(value: Any) -> Any:
    """A value that a host sent beside its frames, with texts of at most MAX_TEXT and without infinite numbers."""
    return _cut(value, MAX_TEXT)


def _problem(value: Any, shape: Any) -> str:
    """What is wrong with a value; empty if it fits. None fits everywhere: a field that is not known."""
    if isinstance(shape, Record):
        return _record_problem(value, shape)
    if isinstance(shape, Rows):
        if not isinstance(value, list):
            return f"{_shown(value)} in place of a list"
        return next((why for item in value if (why := _problem(item, shape.of))), "")
    if isinstance(shape, ByName):
        return _names_problem(value, shape)
    return "" if value is None or _fits(value, shape) else f"the value {_shown(value)}"


def _record_problem(value: Any, shape: Record) -> str:
    if not isinstance(value, dict):
        return f"{_shown(value)} in place of an object"
    for name, inner in shape.required.items():
        if value.get(name) is None:
            return f"no field {name}"
        if why := _problem(value[name], inner):
            return f"{why} in {name}"
    named = ((name, inner) for name, inner in shape.optional.items() if value.get(name) is not None)
    return next((f"{why} in {name}" for name, inner in named if (why := _problem(value[name], inner))), "")


def _names_problem(value: Any, shape: ByName) -> str:
    if not isinstance(value, dict):
        return f"{_shown(value)} in place of an object"
    if shape.numbered and not all(name.isascii() and name.isdigit() and len(name) < 10 for name in value):
        return "a name that is no rank"
    return next((why for item in value.values() if (why := _problem(item, shape.of))), "")


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):  # one of these values
        return value in shape
    if isinstance(shape, Integer):
        return isinstance(value, int) and not isinstance(value, bool) and shape.least <= value <= shape.most
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, shape)


def _cut(value: Any, length: int) -> Any:
    """The same value with texts of at most `length` characters, and without infinite numbers."""
    if isinstance(value, str):
        return value if len(value) <= length else value[:length] + " ..."
    if isinstance(value, list):
        return [_cut(item, length) for item in value]
    if isinstance(value, dict):
        return {str(_cut(name, length)): _cut(item, length) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    text = ascii(value)[:60]
    return text if len(text) < 60 else text + "..."
