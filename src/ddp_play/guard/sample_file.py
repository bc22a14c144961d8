"""samples.jsonl in the directory of an attempt: a line about the host, then rows, thinned as the file grows."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, List

from .run_directory import atomic_write
from .sample_thinning import COVERED, HOST_END, thinned

if TYPE_CHECKING:
    from pathlib import Path

# The file is thinned when it has grown to twice its size after the last time, and to at least this.
LEAST_BYTES = 256 << 10


class SampleFile:
    """Written by the sampler alone. A disk that takes nothing loses rows, never the sampler."""

    def __init__(self, path: Path, header: Dict[str, Any]) -> None:
        self._path = path
        self.header = header
        self._thin_at = LEAST_BYTES

    def start(self) -> None:
        """Write the header, whatever was there before. Raises OSError."""
        atomic_write(self._path, line_of(self.header))

    def append(self, row: Dict[str, Any]) -> None:
        """Add a row, and thin the file if it has grown. Raises FileNotFoundError once the directory is gone."""
        try:
            with open(os.open(str(self._path), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC), "ab") as file:
                file.write(line_of(row))
                size = file.tell()
            if size > self._thin_at:
                self._thin(row[HOST_END])
        except FileNotFoundError:
            raise
        except OSError:  # full: half a row may be there, which readers leave out
            with contextlib.suppress(OSError):
                self.rewrite(row[HOST_END])

    def _thin(self, now: float) -> None:
        self.rewrite(now)
        self._thin_at = max(LEAST_BYTES, 2 * self._path.stat().st_size)

    def rewrite(self, now: float) -> None:
        """Write the header and the thinned rows in place of the file. Raises OSError."""
        rows = thinned(rows_of(self._path.read_bytes()), now, HOST_END)
        atomic_write(self._path, line_of(self.header) + lines_of(rows))


def rows_of(data: bytes) -> List[Dict[str, Any]]:
    """The rows among these lines; what is no row is left out."""
    found = []
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and all(type(row.get(name)) in (int, float) for name in (HOST_END, COVERED)):
                found.append(row)
    return found


def line_of(document: Dict[str, Any]) -> bytes:
    """A header or a row as a line of the file."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def lines_of(rows: Iterable[Dict[str, Any]]) -> bytes:
    """Rows that were read, as lines; those that are too deep to be written again are left out."""
    found = []
    for row in rows:
        with contextlib.suppress(RecursionError):  # what was read may be too deep to be written
            found.append(line_of(row))
    return b"".join(found)
