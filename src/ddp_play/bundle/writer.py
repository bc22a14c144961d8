"""Writer of a run's bundle: logs, metrics, results, artifacts and run.json, readable after a crash at any time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import DiskSpace, is_full
from ddp_play.bundle.file_tail import read_end, size_in_bytes
from ddp_play.bundle.outcome import with_commands
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.errors import DiskFull
from ddp_play.guard.protocol import AGENT_LOG, DUMP, ERROR_FILE, METRICS, RESULT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ddp_play.planning.plan_document import Plan

TAIL_BYTES = 64 * 1024
# Files and folders of each attempt, in addition to plan.json and outcome.json.
OF_ATTEMPT = (
    *("logs", "metrics", "nccl", "results", "env", "evidence", "flight-recorder"),
    *("artifacts", "artifacts.json"),
)


class BeyondEndError(ValueError):
    """A piece that begins after the end of the file that is here: something is missing in between."""


class Bundle:
    """Writes logs, metrics, results and artifacts of a run. No other process writes them."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.disk_space = DiskSpace(paths.root)
        self._stamped: dict[int, float] = {}
        self._partial: set[Path] = set()  # files whose last piece has not come
        self._unsaved: dict[str, Any] = {}  # fields of run.json not yet written because the disk is full
        self.last_data = time.monotonic()
        self.any_output = False  # has any rank printed or reported anything?

    def update_run(self, **fields: Any) -> dict[str, Any]:
        """Merge fields into run.json. On a full disk they wait for the next call, but for the end of the run."""
        known = read_json(self.paths.run)
        self._unsaved.update(with_commands(fields, known))
        document = {**known, **self._unsaved}
        try:
            with self._or_full(self.paths.run):
                write_json(self.paths.run, document)
        except DiskFull:
            try:
                with self._or_full(self.paths.run):
                    write_json(self.paths.run, document)  # in the space of the deleted reserve
            except DiskFull:
                if "ended" in fields:
                    raise
                return document
        self._unsaved.clear()
        return document

    def begin(self, plan: Plan) -> None:
        """Create an empty log for each rank, and the disk reserve."""
        self.disk_space.reserve()
        for host in plan.hosts:
            for rank in host.ranks:
                self.paths.log(rank).touch(mode=0o600)

    def archive(self, attempt: int, outcome: dict[str, Any]) -> None:
        """Move the files of an ended attempt to attempts/N and create empty directories for the next one."""
        put = self.paths.attempt(attempt)
        put.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(put.outcome, outcome)
        put.plan.write_bytes(self.paths.plan.read_bytes())  # a copy: the newest plan is never absent
        for name in OF_ATTEMPT:
            if (self.paths.root / name).exists():
                (self.paths.root / name).replace(put.root / name)
        self.paths.create()

    def offsets(self, plan: Plan, host: str) -> dict[str, dict[str, int]]:
        """Bytes of each rank's log, metrics and (if NCCL is used) NCCL output that the bundle has already."""
        ranks = [rank for item in plan.hosts if item.name == host for rank in item.ranks]
        return {
            "logs": {str(rank): size_in_bytes(self.paths.log(rank)) for rank in ranks},
            "metrics": {str(rank): size_in_bytes(self.paths.metrics(rank)) for rank in ranks},
            "nccl": {str(rank): size_in_bytes(self.paths.nccl(rank)) for rank in ranks if "nccl" in plan.backend},
        }

    def data(self, kind: str, rank: int, at: int, payload: bytes) -> None:
        """Store a piece of a log, of metrics or of NCCL's notes that begins at offset `at` of the rank's file.

        Raises BeyondEndError if bytes before it are missing: it was sent before the disk became full.
        """
        path = {"log": self.paths.log, "metrics": self.paths.metrics, "nccl": self.paths.nccl}[kind](rank)
        have = size_in_bytes(path)
        if at > have:
            raise BeyondEndError(f"{path.name}: got offset {at}, have {have}")
        fresh = payload[have - at :]
        if not fresh:
            return
        self.append(path, fresh)
        self.last_data, self.any_output = time.monotonic(), True
        if kind == "log" and time.time() - self._stamped.get(rank, 0.0) >= 1.0:
            self._stamped[rank] = time.time()
            self.append(self.paths.times(rank), b"%.3f %d\n" % (time.time(), have))

    def file(self, host: str, header: dict[str, Any], payload: bytes) -> None:
        """Append a piece of a collected file; the file gets its name with the last piece."""
        target = self._target(host, header)
        temporary = _part_of(target)
        with self._or_full(temporary):
            if temporary not in self._partial:
                temporary.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                temporary.write_bytes(b"")
                self._partial.add(temporary)
            _append(temporary, payload)
            if header.get("last"):
                temporary.replace(target)
                self._partial.remove(temporary)

    def discard(self, host: str, header: dict[str, Any]) -> None:
        """Remove the pieces of a file that is not collected."""
        with contextlib.suppress(OSError, ValueError, KeyError):  # a path or a kind that has no place here
            temporary = _part_of(self._target(host, header))
            if temporary in self._partial:
                self._partial.remove(temporary)
                temporary.unlink()

    def append(self, path: Path, data: bytes) -> None:
        """Append to a file of the bundle, which need not exist. Raises DiskFull."""
        with self._or_full(path):
            _append(path, data)

    @contextlib.contextmanager
    def _or_full(self, path: Path) -> Iterator[None]:
        """Give up the reserve and raise DiskFull if nothing more fits."""
        try:
            yield
        except OSError as error:
            if not is_full(error):
                raise
            self.disk_space.give_up()
            raise DiskFull(f"no space left for {path}: {error.strerror}") from error

    def _target(self, host: str, header: dict[str, Any]) -> Path:
        kind = header["file"]
        if kind == "artifact":
            relative = PurePosixPath(header["path"])
            if relative.is_absolute() or ".." in relative.parts:
                raise ValueError(f"{host} sent an artifact with the path {relative}")
            return self.paths.artifacts / host / relative
        if kind == AGENT_LOG:
            return self.paths.agent_log(host)
        rank = int(header["rank"])
        names = {
            METRICS: self.paths.metrics(rank),
            RESULT: self.paths.result(rank),
            ERROR_FILE: self.paths.error_file(rank),
            DUMP: self.paths.flight_recorder(rank),
            "proc": self.paths.evidence(rank, "proc"),
        }
        return names[kind]

    def tail(self, rank: int) -> str:
        """The end of a rank's log, as text."""
        return read_tail(self.paths.log(rank), TAIL_BYTES)

    def log_size(self, rank: int) -> int:
        """Bytes of the rank's log in the bundle."""
        return size_in_bytes(self.paths.log(rank))


def _part_of(target: Path) -> Path:
    """Name of a file until its last piece has come; a name of 255 bytes leaves no room for a suffix."""
    return target.with_name("." + hashlib.sha256(os.fsencode(target.name)).hexdigest()[:32] + ".part")


def read_tail(path: Path, num_bytes: int) -> str:
    """The last `num_bytes` of a file as text; empty if it cannot be read."""
    try:
        return read_end(path, num_bytes)[0].decode("utf-8", "replace")
    except OSError:
        return ""


def _append(path: Path, data: bytes) -> None:
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
