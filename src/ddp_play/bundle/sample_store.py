"""Writer of the samples in a bundle: rows of one attempt, appended on the controller's clock, and thinned."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import is_full
from ddp_play.bundle.paths import write_bytes
from ddp_play.bundle.samples import FORMAT, FORMAT_NUMBER, file_text, line_of, read_samples, samples_of, thinned
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
# Part of the supervisor's time that thinning takes at most: files of many hosts grow alike and are due at once, and
# the hosts get no heartbeats meanwhile.
THIN_SHARE = 0.1
# A file that is not thinned yet takes no more rows from here on.
FULL_BYTES = 2 * MOST_BYTES
# Before a file's newest row: more than its rows of some minutes.
TAIL_BYTES = 64 << 10
# A row covers at least this much that is new.
LEAST_S = 0.1


@dataclass
class _Known:
    """What of a host is in its file."""

    header: Row
    up: float  # end of the newest row of the attempt, on the host's clock
    thin_at: int
    size: int = 0


class SampleStore:
    """Samples of one attempt. All attempts of a run share the file of a host."""

    def __init__(self, bundle: Bundle, paths: RunPaths, attempt: int) -> None:
        """`paths`: of the whole run, also where `bundle` is that of an earlier attempt."""
        self._bundle = bundle
        self._paths = paths
        self._attempt = attempt
        self._hosts: dict[str, _Known] = {}
        self._may_thin_at = 0.0  # on the clock of time.monotonic()

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
        if not lines:
            return
        if known.size < FULL_BYTES:
            self._bundle.append(path, lines)
        known.size = path.stat().st_size
        began = time.monotonic()
        if known.size > known.thin_at and began >= self._may_thin_at:
            self._thin(path, known)
            ended = time.monotonic()
            self._may_thin_at = ended + (ended - began) / THIN_SHARE

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
            header, newest = _newest(self._paths.samples(host), self._attempt)
            self._hosts[host] = _Known(header, newest, LEAST_BYTES)
        return self._hosts[host]

    def _thin(self, path: Path, known: _Known) -> None:
        found = read_samples(path)
        rows = thinned(found.rows, time.time())
        text = file_text(found.header, rows)
        while len(text) > MOST_BYTES:
            rows = rows[len(rows) // 2 + 1 :]
            text = file_text(found.header, rows)
        known.thin_at, known.size = max(LEAST_BYTES, 2 * len(text)), len(text)
        try:
            write_bytes(path, text)
        except OSError as error:
            if not is_full(error):
                raise


def _newest(path: Path, attempt: int) -> tuple[Row, float]:
    """Header of the file, and the end of the attempt's newest row on the host's clock; 0 without one.

    Only the lines around the last ones that can be these are parsed: at a restart nobody waits for a week's samples.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return {}, 0.0
    header = samples_of([_line_at(data, data.rfind(b'"%s":' % FORMAT.encode()))]).header
    at = data.rfind(b'"%s":%d,' % (ATTEMPT.encode(), attempt))
    rows = samples_of(data[max(0, at - TAIL_BYTES) : _line_end(data, at)].split(b"\n")).rows if at >= 0 else []
    mine = [row[HOST_END] for row in rows if row[ATTEMPT] == attempt and HOST_END in row]
    return header, max(mine, default=0.0)


def _line_at(data: bytes, at: int) -> bytes:
    """The line that this byte is in."""
    return data[data.rfind(b"\n", 0, max(0, at)) + 1 : _line_end(data, max(0, at))]


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return end if end >= 0 else len(data)
