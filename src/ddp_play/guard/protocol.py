"""Frames between the controller and a host: one JSON header line, then as many raw bytes as it announces.

Log bytes travel raw: JSON per log line would cost half a core at 64 ranks x 1,000 lines/s.
"""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any, Dict, List, Optional, Tuple

# First bytes from the host; what a login shell printed before them is ignored.
MAGIC = b"DDP-PLAY-CHANNEL 1\n"
MAX_PAYLOAD = 256 * 1024
# Number of all formats in which versions of ddp-play meet: frames, control socket, spec.json, state.json, run.json. It
# grows when an earlier version could no longer read one of them right (docs/upgrading.md). Versions without a number
# count as 0.
PROTOCOL = 1
# Lowest number that this version still reads.
OLDEST_PROTOCOL = 0
MAX_VERSION = 40  # characters of a version in a message
# Names in the directory of an attempt on a host. The plan has them in environments and mounts; the guard reads them.
LOGS, SOURCE = "logs", "src"
AGENT_LOG = "torchrun.log"  # in LOGS: output of a host's torchrun itself
# In the directory of a rank. torch appends the rank to the name of the recorder's dump.
METRICS, RESULT, ERROR_FILE = "metrics.jsonl", "result.json", "error.json"
NCCL_NOTES, FLIGHT_RECORDER = "nccl.log", "flight-recorder-"
STARTED, EXITED = ".started", ".exited"  # of a rank under torchrun: its pid, its exit code
# Shell script in an attempt's directory with which a command enters the container that pyxis has made.
ENTER = "enter-container"
# Before the name of a variable of a command in that container. The shell and the Python that enter it add others
# (PWD, SHLVL, LC_CTYPE), and the host's dynamic loader must not act on them.
INSIDE = "DDP_PLAY_INSIDE_"
# Variables with which enroot's NVIDIA hook gives a container the GPUs of its node, whatever its image says.
NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
# Variables of a login with which enroot imports an image, and ENROOT_CONFIG_PATH: where it finds logins of registries.
PROXIES = tuple(
    name for text in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (text, text.upper())
)
ENROOT_CONFIG = "ENROOT_CONFIG_PATH"
# Kind of a dump in a frame; the other files of a rank have their names as kinds.
DUMP = "flight-recorder"
# What a host may send of files: per kind of file, and of artifacts in number, depth and names. Both ends check it.
FILE_LIMITS = {
    METRICS: 1 << 30,
    RESULT: 16 << 20,
    ERROR_FILE: 1 << 20,
    DUMP: 256 << 20,
    "proc": 16 << 20,
    AGENT_LOG: 4 << 30,
}
# Flight recorder dumps of all ranks together, as they are sent to the host that analyses them.
MAX_DUMPS_BYTES = 256 << 20
MAX_ARTIFACTS = 100_000
MAX_MANIFEST_BYTES = 16 << 20
MAX_MISSING = 1000
OVER_LIMIT = "exceeds the rest of ddp_job_artifacts_max_mib"  # why a file was not sent
MAX_LINKS = 1000
MAX_DEPTH = 64
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 2048
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

# What a host may send in one frame. The controller's orders may be longer: the list of a large source is in one.
MAX_HEADER, MAX_HOST_PAYLOAD = 64 << 20, 16 << 20
# Source of a run, in pieces (source_staging): limits of number and size; a row of their list (SHA-256, size).
MAX_SOURCE_PIECES, MAX_SOURCE_PIECE = 1 << 20, 8 << 20
SOURCE_ROW = struct.Struct("!32sI")
# Before each file in the source's archive: length of its name and of its target (0: no symbolic link), mode, size in
# bytes, mtime in nanoseconds. Name, target and content follow. A name that ends with a slash is that of a directory in
# which there is no file; it has no target and no content.
SOURCE_HEADER = struct.Struct("!HHHQq")
# Kind of the frame that stands for bytes that are no frame; `why` says what is wrong.
UNREADABLE = "unreadable"

# Kind of a refusal: the controller withdrew the order, because another host had refused it.
WITHDRAWN = "withdrawn"

# Why a guard ended its ranks: `reason` in its state.
RANK_FAILED = "a rank on this host failed"
MAX_DURATION = "max_duration reached"
LEASE_EXPIRED = "no controller for longer than the lease"
ASKED_TO_END = "the guard was asked to end"
HOST_SHUTS_DOWN = "the host is shutting down"
# In `detail` of a rank whose container somebody else removed.
REMOVED = "removed from outside"

# Around the answer of a verb that answers once, for the same reason.
BEGIN, END = "<ddp-play-answer>", "</ddp-play-answer>"

# Directory of all runs in a shared directory.
SHARED_RUNS = ".ddp-play"

# 64 random bits in hexadecimal, which distinguish two runs with the same name.
TOKEN = re.compile(r"(?P<run>.+)\.(?P<token>[0-9a-f]{16})\Z")

Header = Dict[str, Any]
Frame = Tuple[Header, bytes]


def rank_dir_name(rank: object) -> str:
    """Name of a rank's directory in the directory of its attempt."""
    return "rank-%s" % rank


def rank_log_name(rank: object) -> str:
    """Name of a rank's log in LOGS."""
    return "rank-%s.log" % rank


def run_key(run_id: str, token: str) -> str:
    """Name of a run on hosts, used in directories, containers and units: `night.0123456789abcdef`."""
    return "%s.%s" % (run_id, token) if token else run_id


def split_run_key(key: str) -> Tuple[str, str]:
    """(run id, token) of a run key; the token is empty if an earlier version wrote the key."""
    found = TOKEN.match(key)
    return (found.group("run"), found.group("token")) if found else (key, "")


def protocol_problem(data: Header) -> str:
    """Which version wrote `data`, if this one does not know its format; empty if it does."""
    number = data.get("protocol", 0)
    if type(number) is int and OLDEST_PROTOCOL <= number <= PROTOCOL:
        return ""
    return "written by ddp-play %s with protocol %s, and this ddp-play knows protocols %d to %d" % (
        str(data.get("version") or "of an unknown version")[:MAX_VERSION],
        str(number)[:MAX_VERSION],
        OLDEST_PROTOCOL,
        PROTOCOL,
    )


def path_problem(relative: str) -> str:
    """Why an artifact with this path is neither sent nor accepted; empty if it is."""
    parts = relative.split("/")
    if CONTROL.search(relative):
        return "its name has control characters"
    if any(part in ("", ".", "..") for part in parts):
        return "its path is not below the working directory"
    if len(parts) > MAX_DEPTH:
        return "it is nested deeper than %d directories" % MAX_DEPTH
    try:
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    except UnicodeEncodeError:
        return "its name is no text"
    if max(sizes) > MAX_NAME_BYTES or sum(sizes) + len(parts) > MAX_PATH_BYTES:
        return "its path is longer than %d bytes, or a name in it longer than %d" % (MAX_PATH_BYTES, MAX_NAME_BYTES)
    return ""


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

    def __init__(self, *, expect_magic: bool = False, limited: bool = False) -> None:
        """`limited`: the sender is not trusted. Whatever is no frame ends the stream with a frame UNREADABLE."""
        self._limited = limited
        self._over = False
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer that hold no end of a header
        self._header: Optional[Header] = None
        self._noise = expect_magic

    @property
    def started(self) -> bool:
        """Whether the magic line has been received."""
        return not self._noise

    def feed(self, data: bytes) -> List[Frame]:
        """Return all frames that `data` completes, in order. Raises ValueError for what is no frame, unless limited."""
        if self._over:
            return []
        self._buffer += data
        if self._noise and not self._skip_noise():
            return []
        frames: List[Frame] = []
        while True:
            try:
                frame = self._next()
            except (ValueError, RecursionError) as error:
                if not self._limited:
                    raise
                return [*frames, self._end(str(error))]
            if frame is None:
                return frames
            frames.append(frame)

    def _end(self, why: str) -> Frame:
        self._over = True
        self._buffer.clear()
        return {"t": UNREADABLE, "why": "bytes that are no frame (%s)" % why[:200]}, b""

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
            end = self._buffer.find(b"\n", self._searched)
            self._searched = len(self._buffer) if end < 0 else 0
            if self._limited and max(end, len(self._buffer) if end < 0 else 0) > MAX_HEADER:
                raise ValueError("a header of more than %d MiB" % (MAX_HEADER >> 20))
            if end < 0:
                return None
            self._header = _read_header(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
        wanted = self._header.get("n", 0)
        if self._limited and wanted > MAX_HOST_PAYLOAD:
            raise ValueError("a frame of more than %d MiB" % (MAX_HOST_PAYLOAD >> 20))
        if len(self._buffer) < wanted:
            return None
        payload = bytes(self._buffer[:wanted])
        del self._buffer[:wanted]
        header, self._header = self._header, None
        return header, payload


def _read_header(line: bytes) -> Header:
    header = json.loads(line)
    size = header.get("n", 0) if isinstance(header, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError("a header without a size")
    return dict(header)
