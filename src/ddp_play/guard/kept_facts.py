"""Answers that took long to find and are valid until a file changes: kept in the state directory, for one boot.

Only what decides nothing about a run belongs here: whether a GPU works or a disk is full is asked anew each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import zlib
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .run_directory import atomic_write

NAME = "facts.json"
FORMAT = 1  # of the file; that of another version is ignored
MAX_BYTES = 64 << 10
MAX_ANSWERS, MAX_FILES = 8, 128
# Two changes within the resolution of a file's time look like one, so a file that was changed shortly before the
# question is not relied on.
SETTLED_S = 2.0

Question = List[Any]
Stamp = List[List[Any]]  # path, and what `os.stat` tells of it


class KeptFacts:
    """Kept answers of this user and this boot. Whatever cannot be read or written is as if nothing were kept."""

    def __init__(self, directory: str, machine: str) -> None:
        """`machine`: changes with each boot."""
        self._path = Path(directory) / NAME
        self._machine = machine

    def find(self, question: Question) -> Optional[Tuple[Dict[str, Any], Stamp]]:
        """Answer, and the stamp that its files had; None if it is not kept."""
        return next(((answer, then) for asked, answer, then in self._rows() if asked == question), None)

    def keep(self, question: Question, answer: Dict[str, Any], now: Stamp) -> None:
        """Keep an answer, together with the newest ones to other questions."""
        rows = [[question, answer, now], *(row for row in self._rows() if row[0] != question)]
        value = {"format": FORMAT, "machine": self._machine, "answers": rows[:MAX_ANSWERS]}
        text = json.dumps(value).encode()
        data = b"%08x\n%s" % (zlib.crc32(text), text)
        if len(data) <= MAX_BYTES:
            with contextlib.suppress(OSError):  # a full or read-only disk
                atomic_write(self._path, data)

    def _rows(self) -> List[List[Any]]:
        try:
            checksum, _, text = self._read().partition(b"\n")
            value = json.loads(text) if checksum == b"%08x" % zlib.crc32(text) else {}
        except (OSError, ValueError):
            return []
        is_ours = value.get("format") == FORMAT and value.get("machine") == self._machine
        return list(value["answers"]) if is_ours else []

    def _read(self) -> bytes:
        """The file, if only this user can have written it; else nothing. Raises OSError."""
        fd = os.open(str(self._path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
            return file.read(MAX_BYTES) if ours else b""


def stamp(files: List[str]) -> Optional[Stamp]:
    """What tells that none of these files, and no entry of these directories, has changed; None if one cannot be seen.

    It has the time of the last change of the inode, which no program that copies files can give back.
    """
    if len(files) > MAX_FILES or not all(os.path.isabs(path) for path in files):
        return None
    try:
        return [_row(path) for path in files]
    except (OSError, ValueError):
        return None


def _row(path: str) -> List[Any]:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return [path]
    return [path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def is_settled(found: Stamp, asked: float) -> bool:
    """Whether no file was changed shortly before `asked` (time.time()) or since."""
    return all(max(row[4:]) < (asked - SETTLED_S) * 1e9 for row in found if len(row) > 1)
