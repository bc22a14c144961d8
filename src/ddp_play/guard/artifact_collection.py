"""Files to collect: what ranks wrote for ddp-play, and artifacts in the working directory."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import stat
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .protocol import (
    AGENT_LOG,
    CONTROL,
    DUMP,
    ERROR_FILE,
    FILE_LIMITS,
    FLIGHT_RECORDER,
    MAX_ARTIFACTS,
    MAX_DEPTH,
    MAX_LINKS,
    MAX_MANIFEST_BYTES,
    MAX_MISSING,
    MAX_PAYLOAD,
    METRICS,
    OVER_LIMIT,
    RESULT,
    path_problem,
)
from .rank_user import User, acting_as, owners
from .run_directory import HostRun, read_json
from .untrusted_paths import Below, directory, entries, locate, open_at, walk

Send = Callable[..., None]
Alive = Callable[[], None]
# A controller takes a host that says nothing for 60 s as failed.
ALIVE_EVERY_S = 3.0
RANK_FILES = (METRICS, RESULT, ERROR_FILE)


def matches(relative: str, patterns: List[str]) -> bool:
    """Whether a path relative to the working directory matches a glob; `**` crosses directories."""
    return any(
        pattern in ("**", "**/*")
        or fnmatch.fnmatch(relative, pattern)
        or (pattern.startswith("**/") and fnmatch.fnmatch(relative, pattern[3:]))
        or fnmatch.fnmatch(relative, pattern.rstrip("/") + "/*")
        for pattern in patterns
    )


class Found(NamedTuple):
    """A regular file, in an open directory, or a symbolic link to `target`.

    `problem`: why it, or the directory of this path, cannot be sent.
    """

    relative: str
    directory: int
    size: int
    problem: str = ""
    target: str = ""


class Missing:
    """Files that were not sent, and why; at most MAX_MISSING rows."""

    def __init__(self) -> None:
        self._rows: List[Dict[str, Any]] = []
        self._more, self._more_bytes = 0, 0
        self._ended = False

    def add(self, path: object, why: object, size: Optional[int] = None) -> None:
        """Name a file that was not sent. `size`: in bytes, if a higher limit would let it through."""
        if len(self._rows) == MAX_MISSING:
            self._more += 1
            self._more_bytes += size or 0
            return
        words = (why.strerror or str(why)) if isinstance(why, OSError) else str(why)
        row: Dict[str, Any] = {"path": str(path), "why": words}
        self._rows.append(row if size is None else {**row, "size": size})

    def full(self) -> bool:
        """Whether no further file is named."""
        return self._more > 0

    def end(self) -> None:
        """Count no further files: there may be more."""
        self._ended = True

    def rows(self) -> List[Dict[str, Any]]:
        """All rows, and one for those over the limit."""
        if not self._more:
            return self._rows
        more = "more files, not counted" if self._ended else "%d more files" % self._more
        row: Dict[str, Any] = {"path": more, "why": "the list ends after %d" % MAX_MISSING}
        return [*self._rows, {**row, "size": self._more_bytes} if self._more_bytes else row]


class Manifest:
    """Rows of the artifacts that were sent; `full` says when the answer would become too long.

    `links`: symbolic links among the files, which are told and never followed.
    """

    def __init__(self) -> None:
        self.rows: List[Dict[str, Any]] = []
        self.links: List[Dict[str, str]] = []
        self._num_bytes = 0

    def add(self, path: str, size: int, digest: str) -> None:
        """Record an artifact that was sent."""
        self.rows.append({"path": path, "size": size, "sha256": digest})
        self._num_bytes += len(json.dumps(self.rows[-1]))

    def add_link(self, found: Found) -> None:
        """Record a symbolic link; the first MAX_LINKS of a host."""
        harmless = not (path_problem(found.relative) or CONTROL.search(found.target))
        if harmless and len(self.links) < MAX_LINKS:
            self.links.append({"path": found.relative, "link_to": found.target})

    def full(self) -> bool:
        """Whether no further artifact may be sent."""
        return len(self.rows) >= MAX_ARTIFACTS or self._num_bytes >= MAX_MANIFEST_BYTES


class Pulse:
    """Calls `alive` every ALIVE_EVERY_S as long as it is called itself."""

    def __init__(self, alive: Alive) -> None:
        self._alive = alive
        self._due = time.monotonic() + ALIVE_EVERY_S

    def __call__(self) -> None:
        """Call `alive` if it is time."""
        if time.monotonic() >= self._due:
            self._alive()
            self._due = time.monotonic() + ALIVE_EVERY_S


def new_files(
    top: int, manifest: Dict[str, List[float]], patterns: List[str], alive: Alive = lambda: None
) -> Iterator[Found]:
    """Matching regular files below an open directory that are not in the snapshot, or differ in size or mtime.

    Symbolic links that are not in the snapshot are found too. Calls `alive` every few seconds while it walks.
    A directory that cannot be listed is found as a problem, unless it was removed meanwhile.
    """
    pulse = Pulse(alive)
    for where, fd, names, error in walk(top, MAX_DEPTH, skip="__pycache__", turn=pulse):
        if error is not None and not (where and isinstance(error, FileNotFoundError)):
            yield Found(where, -1, 0, error.strerror or str(error))
        for name in names:
            relative = where + "/" + name if where else name
            pulse()
            if not matches(relative, patterns):
                continue
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and not _is_known(manifest.get(relative), found):
                    yield Found(relative, fd, found.st_size)
                elif stat.S_ISLNK(found.st_mode) and relative not in manifest and (target := _target(name, fd)):
                    yield Found(relative, fd, 0, target=target)


def _target(name: str, fd: int) -> str:
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError:  # it was replaced meanwhile
        return ""


def _is_known(known: Optional[List[float]], found: os.stat_result) -> bool:
    return known is not None and known[0] == found.st_size and abs(known[1] - found.st_mtime) <= 1.0


def fetch(place: HostRun, order: Dict[str, Any], send: Send, alive: Alive = lambda: None) -> Dict[str, Any]:
    """Send all requested files; return the manifest of artifacts, and which files were not sent and why.

    Files are read with the rights of the ranks' user. `order["source"]` is the working directory, and `order["user"]`
    the ranks' user, of an attempt whose own files are already removed. `alive` is called every few seconds
    in which nothing is sent, while the working directory is searched.
    """
    spec = read_json(place.spec) or {}
    user = spec.get("user") or order.get("user")
    missing = Missing()
    for rank in spec.get("ranks", []):
        _send_rank_files(place, int(rank["rank"]), user, send, missing)
    if spec.get("agent") and place.agent_log.is_file():
        with directory(Below(place.logs, ())) as fd:
            _send_limited(fd, place.agent_log, {"file": AGENT_LOG}, send, missing)
    source = order.get("source") or spec.get("source") or {}
    manifest = Manifest()
    if source.get("collect") and order["patterns"]:
        _send_artifacts(source, user, order, send, (manifest, missing), alive=alive)
    return {"missing": missing.rows(), "artifacts": manifest.rows, "links": manifest.links}


def _send_rank_files(place: HostRun, rank: int, user: User, send: Send, missing: Missing) -> None:
    where = place.rank_dir(rank)
    try:
        with directory(Below(place.root, (where.name,))) as fd, acting_as(user):
            present = [name for names in entries(fd) for name in names]
            for name in RANK_FILES:
                if name in present:
                    _send_limited(fd, where / name, {"file": name, "rank": rank}, send, missing)
            for name in sorted(name for name in present if name.startswith(FLIGHT_RECORDER)):
                if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    continue  # torchft has a directory for each quorum
                _send_limited(fd, where / name, {"file": DUMP, "rank": rank}, send, missing)
    except FileNotFoundError:
        return
    except OSError as error:
        missing.add(where, error)


def _send_artifacts(
    source: Dict[str, Any],
    user: User,
    order: Dict[str, Any],
    send: Send,
    results: Tuple[Manifest, Missing],
    *,
    alive: Alive,
) -> None:
    manifest, missing = results
    root = Path(source["path"])
    budget = int(order["max_bytes"])
    try:
        with directory(locate(root), owners(user)) as top, acting_as(user):
            for found in new_files(top, source.get("manifest") or {}, list(order["patterns"]), alive):
                if missing.full() and (manifest.full() or budget <= 0):
                    missing.end()
                    break
                if found.target:
                    manifest.add_link(found)
                    continue
                why = found.problem or _why_not(found, budget, manifest)
                if why:
                    path = root / found.relative if found.directory < 0 else found.relative
                    missing.add(path, why, found.size if why == OVER_LIMIT else None)
                    continue
                what = {"file": "artifact", "path": found.relative}
                digest = _send_file(found.directory, root / found.relative, what, send, missing, limit=found.size)
                if digest:
                    budget -= found.size
                    manifest.add(found.relative, found.size, digest)
    except OSError as error:
        missing.add(root, error)


def _why_not(found: Found, budget: int, manifest: Manifest) -> str:
    """Why a file is not sent; empty if it is to be sent."""
    if found.size > budget:
        return OVER_LIMIT
    if manifest.full():
        return "more than %d artifacts of this host" % len(manifest.rows)
    return path_problem(found.relative)


def _send_limited(fd: int, path: Path, what: Dict[str, Any], send: Send, missing: Missing) -> None:
    """Send a file of a rank, up to the limit for files of its kind."""
    limit = FILE_LIMITS[what["file"]]
    with contextlib.suppress(OSError):  # `_send_file` names it
        if os.stat(path.name, dir_fd=fd, follow_symlinks=False).st_size > limit:
            missing.add(path, "larger than %d MiB, the limit for this kind of file" % (limit >> 20))
            return
    _send_file(fd, path, what, send, missing, limit=limit)


def _send_file(fd: int, path: Path, what: Dict[str, Any], send: Send, missing: Missing, *, limit: int) -> str:
    """Send at most `limit` bytes of a file in an open directory; return their SHA-256, or empty."""
    import hashlib

    digest = hashlib.sha256()
    left = limit
    try:
        with open_at(fd, path.name, path) as handle:
            while True:
                chunk = handle.read(min(MAX_PAYLOAD, left))  # other processes may append for ever
                left -= len(chunk)
                digest.update(chunk)
                send("file", chunk, last=not chunk, **what)
                if not chunk:
                    return digest.hexdigest()
    except OSError as error:
        missing.add(path, error)
        return ""
