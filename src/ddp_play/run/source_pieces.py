"""Pieces of a source's archive: what a host that has most of them from an earlier run need not get again. Pure.

Small neighbours are one piece, because a list with a row per file would be as large as what it saves. Where a piece
ends depends on names, so that the others stay as they are when a file is added, edited or removed.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddp_play.guard.protocol import SOURCE_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ddp_play.run.source_snapshot import Member, Snapshot

# Smaller archives are sent whole: that takes no round trip.
WHOLE_BYTES = 1 << 20
# A group of files ends with a name whose checksum is a multiple of GROUP_FILES, or with this size.
GROUP_FILES, GROUP_BYTES = 64, 256 << 10
# Larger contents are cut.
CUT_BYTES = 4 << 20
# Of a piece, to find out whether compression is worth its time.
TRIAL_BYTES, WORTH_IT = 16 << 10, 0.8


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an archive: its ranges (start, end)."""

    digest: bytes
    size: int
    parts: tuple[tuple[int, int], ...] = field(repr=False)

    def data(self, snapshot: Snapshot) -> bytes:
        """Its content."""
        return _data(snapshot, self.parts)

    def frame(self, snapshot: Snapshot) -> tuple[bytes, bool]:
        """What is sent of it, and whether that is compressed."""
        data = self.data(snapshot)
        trial = data[:TRIAL_BYTES]
        if len(zlib.compress(trial, 1)) > len(trial) * WORTH_IT:
            return data, False
        return zlib.compress(data, 1), True


@dataclass(frozen=True, slots=True)
class Pieces:
    """All pieces of an archive: first those of its headers, then those of its contents."""

    rows: tuple[Piece, ...]
    num_headers: int

    def packed(self) -> bytes:
        """The list that a host gets."""
        return zlib.compress(b"".join(SOURCE_ROW.pack(row.digest, row.size) for row in self.rows), 1)


def pieces_of(snapshot: Snapshot, turn: Callable[[], object] = lambda: None) -> Pieces:
    """The pieces of a snapshot. `turn` is called after each: all of the archive is read and hashed."""

    def made(parts: Iterable[tuple[int, int]]) -> Piece:
        piece = _piece(snapshot, tuple(parts))
        turn()
        return piece

    groups = list(_groups(snapshot.members))
    headers = [made((one.start, one.content) for one in group) for group in groups]
    contents = [made(parts) for group in groups for parts in _content_parts(group)]
    return Pieces((*headers, *contents), len(headers))


def _groups(members: Sequence[Member]) -> Iterator[list[Member]]:
    group: list[Member] = []
    size = 0
    for member in members:
        length = member.end - member.start
        if group and size + length > GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(member)
        size += length
        if zlib.crc32(os.fsencode(member.name)) % GROUP_FILES == 0:
            yield group
            group, size = [], 0
    if group:
        yield group


def _content_parts(group: list[Member]) -> Iterator[tuple[tuple[int, int], ...]]:
    ranges = tuple((one.content, one.end) for one in group if one.end > one.content)
    if len(ranges) != 1:
        if ranges:
            yield ranges
        return
    ((start, end),) = ranges
    for at in range(start, end, CUT_BYTES):
        yield ((at, min(at + CUT_BYTES, end)),)


def _piece(snapshot: Snapshot, parts: tuple[tuple[int, int], ...]) -> Piece:
    data = _data(snapshot, parts)
    return Piece(hashlib.sha256(data).digest(), len(data), parts)


def _data(snapshot: Snapshot, parts: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(snapshot.archive[start:end] for start, end in parts)
