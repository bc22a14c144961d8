"""Reader of a run's bundle while the run goes on: keeps a `RunState` up to date at a bounded cost.

Of logs and metrics only those of the ranks in view are read, and of a log only its end: the cost grows neither with the
number of ranks nor with what they print.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.file_tail import JsonTail, read_end, shown
from ddp_play.bundle.metric_series import is_number
from ddp_play.bundle.paths import read_json
from ddp_play.bundle.run_state import RunState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths

# Of a log, and of a file of samples, whose rows have a part for each rank of the host.
END_BYTES, SAMPLE_BYTES = 8192, 65536
# Of metrics that came at once: a run of days has more of them than a person waits for.
METRICS_BYTES = 8 << 20
SAMPLES_S = 2.0
STALE_S = 30.0  # an older sample says nothing about now


class RunReader:
    """Follows the files of a bundle."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.state = RunState()
        self._events = JsonTail(paths.events)
        self._metrics = JsonTail(paths.metrics(0))
        self._joined = False  # the first reading may find rows of long ago
        self._sampled = float("-inf")
        self._sizes: dict[Path, int] = {}

    def refresh(self, ranks: Iterable[int] = ()) -> None:
        """Take in what is new: events, metrics of rank 0, samples, and the ends of these ranks' logs and metrics."""
        for event in self._events.rows():
            self._take(event)
        received = time.time() if self._joined else None
        self._metrics.skip_backlog(METRICS_BYTES)
        self.state.metrics.add(self._metrics.rows(), received=received)
        self._joined = True
        if time.monotonic() - self._sampled > SAMPLES_S:
            self._sampled = time.monotonic()
            self._read_samples()
        for rank in ranks:
            self._read_rank(rank)

    def _take(self, event: dict[str, Any]) -> None:
        self.state.take_event(event)
        if event["type"] == "phase" and event["phase"] == "preparing" and (plan := read_json(self.paths.plan)):
            self.state.take_plan(plan, at=event.get("time", 0.0))
        elif event["type"] == "restart":
            self._metrics = JsonTail(self.paths.metrics(0))
            self._sizes.clear()

    def _read_samples(self) -> None:
        for name, host in self.state.hosts.items():
            path = self.paths.samples(name)
            if end := self._new_end(path, SAMPLE_BYTES):
                self.state.take_sample(name, host.header or first_row(path), last_row(end))
            if time.time() - (_moment(host.sample)) > STALE_S:
                host.sample = {}

    def _read_rank(self, number: int) -> None:
        rank = self.state.ranks.get(number)
        if rank is None:
            return
        log = self.paths.log(number)
        if end := self._new_end(log):
            rank.line, rank.line_at = last_line(end), _changed(log)
        if end := self._new_end(self.paths.metrics(number)):
            step = last_row(end).get("step")
            rank.step = float(step) if is_number(step) else rank.step

    def _new_end(self, path: Path, num_bytes: int = END_BYTES) -> bytes:
        """The end of a file, if its size has changed since the last call."""
        try:
            size = path.stat().st_size
            if size == self._sizes.get(path, 0):
                return b""
            self._sizes[path] = size
            return read_end(path, num_bytes)[0]
        except OSError:
            return b""


def last_line(end: bytes) -> str:
    """The last line with text, for the screen, from the end of a log. A line that is not complete counts."""
    return shown(end.rstrip().rpartition(b"\n")[2])


def last_row(end: bytes) -> dict[str, Any]:
    """The last complete JSON object of lines of JSON; empty if there is none."""
    for line in reversed(end[: end.rfind(b"\n") + 1].splitlines()):
        row = _object(line)
        if row:
            return row
    return {}


def first_row(path: Path) -> dict[str, Any]:
    """The JSON object of a file's first line; empty if it cannot be read."""
    try:
        with path.open("rb") as handle:
            return _object(handle.readline(END_BYTES))
    except OSError:
        return {}


def _moment(row: dict[str, Any]) -> float:
    end = row.get("t")
    return float(end) if is_number(end) else 0.0


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
