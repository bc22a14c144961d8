"""What runs have used of this host: a row for each stretch of time of an attempt, in this user's state directory.

A guard adds a row every minute and one at the end. Rows cover what was used since the row before, so a guard that is
killed loses less than a minute, and nothing can count twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

from .gpu_time import BUSY, SAMPLED, GpuTime
from .processes import uptime_s
from .run_directory import HostRun, atomic_write

if TYPE_CHECKING:
    from pathlib import Path

NAME, LOCK = "usage.jsonl", "usage.lock"
EVERY_S = 60.0
# Rows of one attempt with a shorter gap become one.
MAX_GAP_S = 10.0
# The file is compacted when it has grown by this; larger than the second, it loses its oldest rows.
COMPACT_BYTES, MOST_BYTES = 256 << 10, 4 << 20
END_S, POLL_S = 0.2, 0.01  # to get the lock for the last row
LARGEST = 1 << 32  # of a number in a row; the file is this user's, and so are the ranks of many
OF_GPUS = (SAMPLED, BUSY)  # in rows of attempts whose GPUs were sampled

Row = Dict[str, Any]


class UsageRecord:
    """The rows of one attempt. A disk that takes nothing loses them, and ends nothing."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        self._directory = place.base
        self._fields = {
            "run": place.run_key,
            "attempt": place.attempt,
            "host": spec.get("host", ""),
            "owner": spec.get("owner", ""),
            "slots": len(spec.get("ranks") or ()),
        }
        self._since_s = uptime_s()
        self._gpu_time = GpuTime(place.samples, spec.get("gpus") or [], self._since_s)

    def begin(self) -> None:
        """The ranks start now."""
        self._since_s = uptime_s()

    def keep(self) -> None:
        """Add a row if the last one was long enough ago."""
        if uptime_s() - self._since_s >= EVERY_S:
            self._add()

    def end(self) -> None:
        """Add what is left."""
        until = time.monotonic() + END_S
        while not self._add() and time.monotonic() < until:
            time.sleep(POLL_S)

    def _add(self) -> bool:
        """Whether the row is stored, or cannot be; False while another guard has the lock."""
        if self._directory is None:
            return True
        now_s = uptime_s()
        seconds = now_s - self._since_s
        row = {**self._fields, "from": round(time.time() - seconds, 3), "s": round(seconds, 3), **self._gpu_time.read()}
        with contextlib.suppress(OSError), _locked(self._directory) as is_mine:
            if not is_mine:
                return False
            _append(self._directory / NAME, row)
        self._since_s = now_s
        self._gpu_time.clear()
        return True


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[bool]:
    """Whether no other guard is writing; held in the block. Raises OSError."""
    fd = os.open(str(directory / LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)


def _append(path: Path, row: Row) -> None:
    fd = os.open(str(path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "r+b", buffering=0) as file:
        size = os.fstat(fd).st_size
        is_whole = size == 0 or os.pread(fd, 1, size - 1) == b"\n"  # a full disk may have cut the last row
        data = (b"" if is_whole else b"\n") + _line(row)
        file.write(data)
    if size // COMPACT_BYTES != (size + len(data)) // COMPACT_BYTES:
        compact(path)


def compact(path: Path) -> None:
    """Make one row of an attempt's rows without gaps, and drop the oldest if the file is still large."""
    text = b"".join(map(_line, merged(rows_of(path.read_bytes()))))
    while len(text) > MOST_BYTES:
        text = text[text.find(b"\n", len(text) // 2) + 1 :]
    atomic_write(path, text)


def merged(rows: List[Row]) -> List[Row]:
    """The rows with those of the same attempt that follow each other as one, in the order of their starts."""
    found: List[Row] = []
    newest: Dict[Any, Row] = {}
    for row in sorted(rows, key=lambda each: float(each["from"])):
        key = tuple(sorted((name, str(value)) for name, value in row.items() if name not in ("from", "s", *OF_GPUS)))
        last = newest.get(key)
        if last is not None and row["from"] - (last["from"] + last["s"]) < MAX_GAP_S:
            last.update({name: round(number(last, name) + number(row, name), 3) for name in _summed(last, row)})
        else:
            newest[key] = dict(row)
            found.append(newest[key])
    return found


def _summed(*rows: Row) -> List[str]:
    return ["s", *(name for name in OF_GPUS if any(name in row for row in rows))]


def number(row: Row, name: str) -> float:
    """A field of a row; 0 where it has none, or no number."""
    value: Any = row.get(name)
    return float(value) if _is_number(value) else 0.0


def rows_of(data: bytes) -> List[Row]:
    """The rows in the file; what is no row is left out. Rows are flat: a list may be too deep to be written again."""
    found = []
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if not isinstance(row, dict) or any(isinstance(value, (dict, list)) for value in row.values()):
                continue
            if all(_is_number(row.get(name)) for name in ("from", "s", "slots")):
                found.append(row)
    return found


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < LARGEST


def _line(row: Row) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"
