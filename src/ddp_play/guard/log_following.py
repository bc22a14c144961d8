"""What a channel sends of a running attempt: logs, metrics and NCCL's output by offset, samples, the guard's state."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from . import interfaces, processes
from .file_events import FileEvents
from .followed_file import FileStarts, Followed
from .guard_link import GuardLink
from .protocol import METRICS, NCCL_NOTES, Header
from .rank_user import other_user
from .run_directory import HostRun, read_json
from .sample_following import FollowedSamples

if TYPE_CHECKING:
    from .run_directory import HostRun

# A state waits at most so long for the output before it: a rank that prints without end hides no end of another.
WITHHOLD_S = 1.0
# Interval between looks: while output arrives, after QUIET_AFTER_S without any, and while the kernel tells of news.
POLL_S, QUIET_POLL_S, REST_S = 0.05, 0.25, 5.0
QUIET_AFTER_S = 2.0

Send = Callable[..., None]


class Following:
    """The followed files and the state of one attempt; `turn` sends what is new."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._files: Dict[Tuple[str, int], Followed] = {}  # the one that was sent last is the last
        self._starts: Optional[FileStarts] = None
        self._samples: Optional[FollowedSamples] = None
        self._guard: Optional[GuardLink] = None
        self._withheld_since: Optional[float] = None  # time.monotonic() when a state was first held back
        self._drain: Optional[int] = None
        self.moved = time.monotonic()  # time.monotonic() of the last chunk sent, or news of a file
        self._events: Optional[FileEvents] = None

    def begin(self, place: HostRun, header: Header, guard: Optional[GuardLink] = None) -> None:
        """Start at these offsets by rank: `logs`, `metrics` and `nccl` of the order; the state comes from `guard`.

        `samples` of the order, which earlier versions lack, has the end of the newest row that is there (`after`).
        """
        user = other_user((read_json(place.spec) or {}).get("user"))
        owner = user["uid"] if user else None
        starts = self._starts = self._starts or FileStarts(place.file_starts)
        for rank, offset in header["logs"].items():
            self._files[("log", int(rank))] = Followed(place.log(int(rank)), int(offset), starts)
        for kind, name in (("metrics", METRICS), ("nccl", NCCL_NOTES)):
            for rank, offset in header[kind].items():
                path = place.rank_dir(int(rank)) / name
                self._files[(kind, int(rank))] = Followed(path, int(offset), starts, kind=kind, owner=owner)
        samples = header.get("samples")
        self._samples = FollowedSamples(place.samples, float(samples["after"])) if samples else None
        self._guard = guard or GuardLink(place)
        self._guard.again()
        self._watch_files()

    def _watch_files(self) -> None:
        """Let the kernel tell news of the files; where it does not, they are looked at."""
        self._unwatch_files()
        with contextlib.suppress(OSError):
            self._events = FileEvents(sorted({str(followed.path.parent) for followed in self._files.values()}))

    def _unwatch_files(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def wait(self) -> Tuple[List[int], float]:
        """(descriptors that tell news of files, seconds until the next look if none does).

        Of files that grow all the time the kernel tells too often, so they are polled.
        """
        pause_s = self._pause_s()
        return (self._events.descriptors() if self._events is not None and pause_s > POLL_S else []), pause_s

    def _pause_s(self) -> float:
        if time.monotonic() - self.moved <= QUIET_AFTER_S:
            return POLL_S
        is_guard_told = self._guard is None or bool(self._guard.descriptors())
        return REST_S if is_guard_told and (self._events is not None or not self._files) else QUIET_POLL_S

    def woken(self) -> None:
        """Look at the files in short intervals for a while: what is written now would tell of every write."""
        self.moved = time.monotonic()

    def pause(self) -> None:
        """Send no files until `begin`; the state is still sent."""
        self._files.clear()
        self._samples = None
        self._unwatch_files()

    def end(self) -> None:
        """Send nothing until `begin`."""
        self._files.clear()
        self._samples = None
        self._unwatch_files()
        self._guard = None

    def drain(self, order: int) -> None:
        """Send `drained` with this order number once all present bytes have been sent."""
        self._drain = order

    def turn(self) -> bool:
        """Send what is new, of one file at most; True if more is waiting.

        The state is sent after the output that preceded it, or when it has been held back for WITHHOLD_S.
        """
        if self._events is not None:
            self._events.clear()
        fresh = self._guard.fresh() if self._guard is not None else None
        busy = self._send_chunk()
        busy = self._send_samples() or busy
        if fresh is not None:
            self._send_state(fresh, busy=busy)
        if self._drain is not None and not busy:
            self._send("drained", id=self._drain, counters=interfaces.counters(), logs=self._damaged_logs())
            self._drain = None
        return busy

    def _damaged_logs(self) -> List[Dict[str, Any]]:
        """Logs of which lines may be missing although all that is readable was sent."""
        logs = sorted((rank, followed) for (kind, rank), followed in self._files.items() if kind == "log")
        return [{"rank": rank, "why": followed.loss()} for rank, followed in logs if followed.loss()]

    def _send_state(self, state: Dict[str, Any], *, busy: bool) -> None:
        now = time.monotonic()
        since, self._withheld_since = self._withheld_since or now, None
        if busy and now - since < WITHHOLD_S and self._guard is not None:
            self._withheld_since = since
            self._guard.again()  # once the logs have been sent
        else:
            self._send("state", state=state)

    def _send_samples(self) -> bool:
        """Whether there may be more: rows that the controller lacks are at the end of a file."""
        if self._samples is None:
            return False
        if lines := self._samples.take():
            self._send("samples", lines, uptime=processes.uptime_s())
        return bool(lines) or self._samples.is_behind

    def _send_chunk(self) -> bool:
        """Send a piece of one file, of all in turn: orders are read between two pieces. Whether there is more."""
        for (kind, rank), followed in self._files.items():
            chunk = followed.next_chunk()
            if chunk:
                self.moved = time.monotonic()
                self._send(kind, chunk, rank=rank, at=followed.offset)
                followed.offset += len(chunk)
                self._files[(kind, rank)] = self._files.pop((kind, rank))
                return any(other.is_behind for other in self._files.values())
        return False
