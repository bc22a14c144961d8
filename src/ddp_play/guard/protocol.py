"""Frames between the controller and a host: one JSON header line, then as many raw bytes as it announces.

Log bytes travel raw: JSON per log line would cost half a core at 64 ranks x 1,000 lines/s.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

# First bytes from the host; what a login shell printed before them is ignored.
MAGIC = b"DDP-PLAY-CHANNEL 1\n"
MAX_PAYLOAD = 256 * 1024
# Around the answer of a verb that answers once, for the same reason.
BEGIN, END = "<ddp-play-answer>", "</ddp-play-answer>"

# 64 random bits in hexadecimal, which distinguish two runs with the same name.
TOKEN = re.compile(r"(?P<run>.+)\.(?P<token>[0-9a-f]{16})\Z")

Header = Dict[str, Any]
Frame = Tuple[Header, bytes]


def run_key(run_id: str, token: str) -> str:
    """Name of a run on hosts, used in directories, containers and units: `night.0123456789abcdef`."""
    return "%s.%s" % (run_id, token) if token else run_id


def split_run_key(key: str) -> Tuple[str, str]:
    """(run id, token) of a run key; the token is empty if an earlier version wrote the key."""
    found = TOKEN.match(key)
    return (found.group("run"), found.group("token")) if found else (key, "")


def encode(kind: str, payload: bytes = b"", **fields: Any) -> bytes:
    """Return one frame: `kind` and `fields` as a JSON line, then `payload` unchanged."""
    header: Header = {"t": kind, **fields}
    if payload:
        header["n"] = len(payload)
    return json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode() + b"\n" + payload


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` to a blocking descriptor. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class FrameReader:
    """Turns a byte stream into frames; `feed` may be called with any slicing of the stream."""

    def __init__(self, *, expect_magic: bool = False) -> None:
        self._buffer = bytearray()
        self._header: Optional[Header] = None
        self._noise = expect_magic

    @property
    def started(self) -> bool:
        """Whether the magic line has been received."""
        return not self._noise

    def feed(self, data: bytes) -> List[Frame]:
        """Return all frames that `data` completes, in order. Raises ValueError for a header that is not JSON."""
        self._buffer += data
        if self._noise and not self._skip_noise():
            return []
        frames: List[Frame] = []
        while True:
            frame = self._next()
            if frame is None:
                return frames
            frames.append(frame)

    def _skip_noise(self) -> bool:
        at = self._buffer.find(MAGIC)
        if at < 0:
            del self._buffer[: max(0, len(self._buffer) - 65536)]
            return False
        del self._buffer[: at + len(MAGIC)]
        self._noise = False
        return True

    def _next(self) -> Optional[Frame]:
        if self._header is None:
            end = self._buffer.find(b"\n")
            if end < 0:
                return None
            self._header = json.loads(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
        wanted = self._header.get("n", 0)
        if len(self._buffer) < wanted:
            return None
        payload = bytes(self._buffer[:wanted])
        del self._buffer[:wanted]
        header, self._header = self._header, None
        return header, payload
