"""Archive of the source on this host, put together from pieces of earlier runs and those that the controller sends.

Headers and contents of the archive are separate pieces. So a file whose time alone has changed does not travel again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from typing import IO, TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple

from .protocol import MAX_SOURCE_PIECE, MAX_SOURCE_PIECES, SOURCE_HEADER, SOURCE_ROW
from .refusal import Refused
from .source_store import SourceStore

if TYPE_CHECKING:
    from .run_directory import HostRun

# Another run may store a piece again while this one looks which are missing.
ASSEMBLE_TRIES = 3

Piece = Tuple[str, int]  # SHA-256 in hexadecimal, size in bytes


class Staging:
    """Pieces of one source: which are missing here, and the archive of all of them."""

    def __init__(self, place: HostRun, packed: bytes, num_headers: int, store: Optional[SourceStore] = None) -> None:
        """`packed`: rows of all pieces, first of those with headers. Raises Refused if it is no such list."""
        self._place = place
        self._store = store or SourceStore()
        self._rows = _rows(packed)
        self._num_headers = num_headers
        self._spooled: Dict[str, int] = {}  # pieces that could not be stored -> where they are in the spool
        self._spool_size = 0
        self._keeps = self._store.has_space(sum(size for _, size in self._rows))
        self._added = False

    def missing(self) -> List[int]:
        """Numbers of the pieces that are not here, each content once."""
        seen, wanted = set(), []
        for number, (digest, size) in enumerate(self._rows):
            if digest not in seen and digest not in self._spooled and not self._store.has(digest, size):
                wanted.append(number)
            seen.add(digest)
        return wanted

    def receive(self, number: int, payload: bytes, *, packed: bool) -> None:
        """Keep a piece that was sent. Raises Refused if its content is not that of the list, and OSError."""
        if not 0 <= number < len(self._rows):
            raise Refused("cannot prepare: a piece of the source that is not in its list", kind="internal")
        digest, size = self._rows[number]
        data = _unpacked(payload, size) if packed else payload
        if hashlib.sha256(data).hexdigest() != digest:
            raise Refused("cannot prepare: a piece of the source arrived with another content", kind="internal")
        if self._keeps and self._store.add(digest, data):
            self._added = True
            return
        self._keeps = False  # a full disk: what is still to come goes to this run alone
        with open(self._spool, "ab") as spool:
            spool.write(data)
        self._spooled[digest] = self._spool_size
        self._spool_size += size

    def assemble(self) -> List[int]:
        """Write the archive. If a stored piece is gone or damaged there is none, and all missing ones are named.

        Raises Refused if pieces are here that cannot be read, and OSError.
        """
        for _ in range(ASSEMBLE_TRIES):
            if self._write_archive():
                return []
            self._check_all()
            if missing := self.missing():
                return missing  # else another run has stored them meanwhile
        raise Refused(
            "a kept piece of the source cannot be read in %s" % self._store.root,
            hint="check the disk; ddp-play gc -i INVENTORY --sources removes what is kept",
        )

    def _write_archive(self) -> bool:
        """Put the pieces together; False if one is gone or damaged."""
        try:
            with open(str(self._place.source_archive), "wb") as archive:
                for data in self._archive():
                    archive.write(data)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._place.source_archive.unlink()
            if isinstance(error, _MissingError):
                return False
            raise
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._spool)
        if self._added:
            self._store.evict()
        return True

    @property
    def _spool(self) -> str:
        return str(self._place.source_pieces)

    def _check_all(self) -> None:
        for digest, size in self._rows:
            if digest not in self._spooled:
                self._store.read(digest, size)  # removes a damaged one

    def _archive(self) -> Iterator[bytes]:
        with contextlib.ExitStack() as stack:
            spool = stack.enter_context(open(self._spool, "rb")) if self._spooled else None
            headers = _Stream(self._read(piece, spool) for piece in self._rows[: self._num_headers])
            contents = _Stream(self._read(piece, spool) for piece in self._rows[self._num_headers :])
            while header := headers.take(SOURCE_HEADER.size):
                name_size, link_size, _, following, _ = SOURCE_HEADER.unpack(header)
                yield header + headers.take(name_size + link_size)
                while following:
                    part = contents.take(min(following, MAX_SOURCE_PIECE))
                    if not part:
                        raise Refused("cannot prepare: contents of the source are missing", kind="internal")
                    yield part
                    following -= len(part)

    def _read(self, piece: Piece, spool: Optional[IO[bytes]]) -> bytes:
        digest, size = piece
        if spool is None or digest not in self._spooled:
            data = self._store.read(digest, size)
        else:
            spool.seek(self._spooled[digest])
            data = spool.read(size)
            data = data if hashlib.sha256(data).hexdigest() == digest else None
            if data is None:
                del self._spooled[digest]
        if data is None:
            raise _MissingError(digest)
        return data


class _MissingError(Exception):
    """A piece is not here any more."""


class _Stream:
    """Bytes of pieces, one after the other."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._now = memoryview(b"")

    def take(self, size: int) -> bytes:
        """The next `size` bytes; nothing at the end. Raises Refused if it ends in between."""
        parts = []
        while size:
            if not self._now:
                data = next(self._pieces, None)
                if data is None:
                    break
                self._now = memoryview(data)
            parts.append(self._now[:size])
            self._now = self._now[size:]
            size -= len(parts[-1])
        if size and parts:
            raise Refused("cannot prepare: the list of the source's pieces is not complete", kind="internal")
        return b"".join(parts)


def _rows(packed: bytes) -> List[Piece]:
    data = _unpacked(packed, MAX_SOURCE_PIECES * SOURCE_ROW.size)
    if len(data) % SOURCE_ROW.size:
        raise Refused("cannot prepare: a list of the source's pieces that is cut off", kind="internal")
    rows = [(digest.hex(), size) for digest, size in SOURCE_ROW.iter_unpack(data)]
    if any(size > MAX_SOURCE_PIECE for _, size in rows):
        raise Refused("cannot prepare: a piece of the source is too large", kind="internal")
    return rows


def _unpacked(payload: bytes, limit: int) -> bytes:
    try:
        data = zlib.decompressobj().decompress(payload, limit + 1)
    except zlib.error as error:
        raise Refused("cannot prepare: a piece of the source is damaged: %s" % error, kind="internal") from error
    if len(data) > limit:
        raise Refused("cannot prepare: a piece of the source is larger than announced", kind="internal")
    return data
