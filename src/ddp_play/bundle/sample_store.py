"""Writer of the samples in a bundle: rows of one attempt, appended on the controller's clock, and thinned."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import is_full
from ddp_play.bundle.paths import write_bytes
from ddp_play.bundle.samples import FORMAT, FORMAT_NUMBER, file_text, line_of, read_samples, thinned
from ddp_play.errors import DiskFull
from ddp_play.guard.sample_thinning import ATTEMPT, COVERED, END, HOST_END

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.writer import Bundle

Row = dict[str, Any]
# The file is thinned when it has grown to twice its size after the last time, and to at least this.
LEAST_BYTES = 256 << 10
# Rows of a host that sends what no sampler does: the older half is dropped.
MOST_BYTES = 16 << 20
# A row covers at least this much that is new.
LEAST_S = 0.1


@dataclass
class _Known:
    """What of a host is in its file."""

    header: Row
    up: float  # end of the newest row of the attempt, on the host's clock
    thin_at: int


class SampleStore:
    """Samples of one attempt. All attempts of a run share the file of a host."""

    def __init__(self, bundle: Bundle, paths: RunPaths, attempt: int) -> None:
        """`paths`: of the whole run, also where `bundle` is that of an earlier attempt."""
        self._bundle = bundle
        self._paths = paths
        self._attempt = attempt
        self._hosts: dict[str, _Known] = {}

    def offset(self, host: str) -> dict[str, dict[str, float]]:
        """`samples` of the order `follow`: end of the newest row that is here, in seconds since the host booted."""
        return {"samples": {"after": self._known(host).up}}

    def add(self, host: str, about: Mapping[str, Any], rows: Sequence[Row], uptime_s: float) -> None:
        """Append what is new among these rows. Raises DiskFull.

        `about`: what the host told of itself, if it did. `uptime_s`: of the host, at this moment.
        """
        known, path = self._known(host), self._paths.samples(host)
        header = {"host": host, **about, FORMAT: FORMAT_NUMBER}
        lines = b""
        if about and header != known.header:
            known.header, lines = header, line_of(header)
        boot = time.time() - uptime_s
        fresh = [row for row in (self._placed(row, boot, known) for row in rows) if row]
        lines += b"".join(map(line_of, fresh))
        try:
            self._store(path, lines, known)
        except DiskFull:
            del self._hosts[host]  # what is there now is read again
            raise
        except OSError:  # a run does not fail for its samples
            return

    def _store(self, path: Path, lines: bytes, known: _Known) -> None:
        if lines:
            self._bundle.append(path, lines)
            if path.stat().st_size > known.thin_at:
                self._thin(path, known)

    def _placed(self, row: Row, boot: float, known: _Known) -> Row:
        """The row on this clock; cut where it covers time that is here already, and empty if nothing of it is new."""
        up, seconds = row[HOST_END], min(row[COVERED], row[HOST_END] - known.up)
        if seconds < LEAST_S:
            return {}
        known.up = up
        values = {name: value for name, value in row.items() if name not in (HOST_END, COVERED)}
        covered = {END: round(boot + up, 3), COVERED: round(seconds, 3), ATTEMPT: self._attempt, HOST_END: up}
        return {**covered, **values}

    def _known(self, host: str) -> _Known:
        if host not in self._hosts:
            found = read_samples(self._paths.samples(host))
            mine = [row for row in found.rows if row[ATTEMPT] == self._attempt and HOST_END in row]
            newest = max((row[HOST_END] for row in mine), default=0.0)
            self._hosts[host] = _Known(found.header, newest, LEAST_BYTES)
        return self._hosts[host]

    def _thin(self, path: Path, known: _Known) -> None:
        found = read_samples(path)
        rows = thinned(found.rows, time.time())
        text = file_text(found.header, rows)
        while len(text) > MOST_BYTES:
            rows = rows[len(rows) // 2 + 1 :]
            text = file_text(found.header, rows)
        known.thin_at = max(LEAST_BYTES, 2 * len(text))
        try:
            write_bytes(path, text)
        except OSError as error:
            if not is_full(error):
                raise
