"""Limits for the files of one host: which frames of files are kept, and which files are missing because of a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import (
    AGENT_LOG,
    FILE_LIMITS,
    LOGS,
    MAX_ARTIFACTS,
    MAX_MISSING,
    OVER_LIMIT,
    path_problem,
    rank_dir_name,
)
from ddp_play.run.host_frames import ARTIFACT, HostFrameError

if TYPE_CHECKING:
    from ddp_play.bundle.writer import Bundle
    from ddp_play.guard.protocol import Header

Key = tuple[str, Any]


class HostFiles:
    """The files that one host has sent in an attempt. `missing`: rows for run.json of files that were not kept."""

    def __init__(self, host: str = "", max_artifact_bytes: int = 2**63) -> None:
        self.host = host
        self.missing: list[dict[str, Any]] = []
        self._max_artifact_bytes = max_artifact_bytes
        self._artifact_bytes = 0
        self._sizes: dict[Key, int] = {}  # of files that are kept
        self._complete: set[str] = set()
        self._dropped: set[Key] = set()

    @property
    def artifact_bytes(self) -> int:
        """Size of all artifacts that were kept."""
        return self._artifact_bytes

    def has(self, path: str) -> bool:
        """Is this artifact complete here?"""
        return path in self._complete

    def accept(self, header: Header, num_bytes: int) -> bool:
        """Count a piece of a file; False if it must not be written. A file that is refused gets a row in `missing`."""
        key = _key(header)
        if key in self._dropped:
            return False
        if why := self._why_not(key, num_bytes):
            if key[1] not in self._complete:
                self.forget(header)
            self.drop(header, why)
            return False
        self._sizes[key] = self._sizes.get(key, 0) + num_bytes
        if key[0] == ARTIFACT:
            self._artifact_bytes += num_bytes
        if header["last"]:
            self._end(key)
        return True

    def drop(self, header: Header, why: str) -> None:
        """Keep no further piece of this file and list it as missing."""
        key = _key(header)
        if len(self._dropped) < MAX_MISSING:
            self._dropped.add(key)
            name = key[1] if key[0] == ARTIFACT else f"{key[0]} of rank {key[1]}"
            self.missing.append({"host": self.host, "path": str(name)[:200], "why": why})

    def dropped_entries(self) -> set[str]:
        """Entries of the attempt's directory on the host that have a file of a rank, or of all, which was not kept."""
        names = (name for kind, name in self._dropped if kind != ARTIFACT)
        return {LOGS if name is None else rank_dir_name(name) for name in names}

    def forget(self, header: Header) -> None:
        """Remove the pieces of this file."""
        key = _key(header)
        self._complete.discard(str(key[1]))
        size = self._sizes.pop(key, 0)
        self._artifact_bytes -= size if key[0] == ARTIFACT else 0

    def _end(self, key: Key) -> None:
        if key[0] == ARTIFACT:
            self._complete.add(key[1])
        else:
            del self._sizes[key]  # evidence and the like may be sent again

    def _why_not(self, key: Key, num_bytes: int) -> str:
        kind, name = key
        if kind != ARTIFACT and kind not in FILE_LIMITS:
            return "a file of another version of ddp-play"
        size = self._sizes.get(key, 0) + num_bytes
        if kind != ARTIFACT:
            limit = FILE_LIMITS[kind]
            return f"larger than {limit >> 20} MiB, the limit for this kind of file" if size > limit else ""
        if name in self._complete:
            return f"{self.host} sent it twice"
        if key not in self._sizes and len(self._sizes) >= MAX_ARTIFACTS:
            return f"{self.host} sent more than {MAX_ARTIFACTS} artifacts"
        if self._artifact_bytes + num_bytes > self._max_artifact_bytes:
            return OVER_LIMIT
        return path_problem(name)


def _key(header: Header) -> Key:
    kind = header["file"]
    name = header.get("path") if kind == ARTIFACT else header.get("rank")
    if name is None and kind != AGENT_LOG:
        raise HostFrameError(f"a file {ascii(kind)[:60]} without its {'path' if kind == ARTIFACT else 'rank'}")
    return kind, name


def keep_piece(files: HostFiles, bundle: Bundle, header: Header, payload: bytes) -> None:
    """Write a piece of a host's file into the bundle, or name the file as missing. Raises DiskFull."""
    if files.accept(header, len(payload)):
        try:
            bundle.file(files.host, header, payload)
        except OSError as error:  # a name that this file system does not take, a file in place of a directory
            files.forget(header)
            files.drop(header, f"it cannot be written here: {error.strerror or error}")
        else:
            return
    bundle.discard(files.host, header)
