"""Whether a rank failed, and the messages that explain it: torch's about a lost peer, the kernel's about OOM kills.

torch's, gloo's and NCCL's messages are those of torch 1.10 to 2.15; tests/unit/guard/tails has them with their
sources. Guard and controller use the same patterns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, List, Optional

from .tracebacks import Traceback, errors, meaningful, without_summary

if TYPE_CHECKING:
    from pathlib import Path

# A lost peer in the words of gloo, of torch's stores and barriers, and of NCCL. None is a text of the operating system:
# "Connection refused" is also what a data loader, a database or a metrics service reports.
PEER = re.compile(
    r"\[[^\s\[\]]{0,500}gloo/[^\s\[\]]{1,500}\.(cc|h):\d+\]|"
    r"client socket has (timed out|failed to connect)|Timed out after \d+ seconds waiting for clients|"
    r"store based barrier|wait timeout after \d+ms, keys|Timeout waiting for key|monitoredBarrier|"
    r"ncclUniqueId.* got error|\[c10d\].*(recv|send)\w* failed on SocketImpl|"
    r"Connection was likely closed\. Did the remote server shutdown or crash|"
    r"ncclRemoteError|ncclSystemError|unhandled system error|remote process exited or there was a network error|"
    r"Watchdog caught collective operation timeout|NCCL operations have failed or timed out|"
    r"NCCL communicator (was|has been) aborted|dump signal due to a collective timeout from +rank|"
    r"Connection closed by remote peer|Socket recv failed while polling for opId|"
    r"distributed\.(DistStoreError|DistNetworkError|elastic\.rendezvous\.\S*Error):"
)
# The same libraries about their own process: these words make it no lost peer.
OWN = re.compile(
    r"EADDRINUSE|address already in use|failed to (listen|bind)|gai error|Cannot assign requested address|"
    r"No space left on device|/dev/shm|shared memory segment|CUDA error|Cuda failure|unhandled cuda error|"
    r"out of memory|Duplicate GPU|ncclInvalid|enforce fail at",
    re.IGNORECASE,
)
# Texts of the operating system, which old versions of torch pass on without their own: only from one of torch's frames.
BARE = re.compile(r"Connection (reset|closed|refused)|Broken pipe|Socket Timeout|Timed out", re.IGNORECASE)
TORCH_ERRORS = re.compile(r"^(RuntimeError|TimeoutError|torch\.(distributed|_C)\.[\w.]+|[\w.]*DistBackendError)(:|$)")
TORCH_FRAMES = re.compile(r"/torch/(distributed|nn/parallel)/")
# Log lines of torch about what it survives or raises as an exception: retries of a store, warnings.
TORCH_NOTE = re.compile(r"^\[(W\d* ?[^\]]*|E\d* ?[^\]]*(socket|TCPStore\w*))\.(cpp|hpp):\d+\]")
# How a rank ends because it was told to, in words.
TOLD_TO_END = re.compile(r"^(KeyboardInterrupt|SystemExit)\b|[Gg]ot signal: \d+|killed by signal: Terminated|SIGTERM")
CRASH = re.compile(r"^terminate called after throwing |^Fatal Python error: (?!Aborted)|\bCUDA error: ")

OOM_EVENT = re.compile(r"oom-kill:.*\btask_memcg=(?P<group>[^,]+),.*\bpid=(?P<pid>\d+)")
OOM_GROUP = re.compile(r"Task in (?P<group>\S+) killed as a result of limit of")  # before Linux 4.19
OOM_KILLED = re.compile(r"\b[Oo]ut of memory: Kill(ed)? process (?P<pid>\d+)|\bKilled process (?P<pid2>\d+)")
LAST_LINES = 20
LAST_BYTES = 64 * 1024


def rank_failed(state: str, exit_code: Optional[int], *, stopped: bool) -> bool:
    """Did a rank end badly, and not because we ended it? An exit code that nobody can tell (None) is a bad one."""
    return state == "exited" and exit_code != 0 and not stopped


def signal_in(exit_code: Optional[int]) -> Optional[int]:
    """The signal in an exit code: 128+N, as shells and the init of a container report it; None if there is none."""
    return exit_code - 128 if exit_code is not None and 128 < exit_code <= 192 else None


def is_collateral(tail: str) -> bool:
    """Whether the end of a rank's log is the message of torch, gloo or NCCL about a lost peer."""
    lines = meaningful(tail)
    error = _last_error(lines)
    if error is not None:
        return _blames_a_peer(error.root, lines)
    end = [line for line in lines[-LAST_LINES:] if not TORCH_NOTE.match(line)]
    return any(PEER.search(line) for line in end) and not any(OWN.search(line) for line in end)


def has_own_error(tail: str) -> bool:
    """Whether the end of a rank's log is an error that is neither a lost peer nor the answer to a stop."""
    lines = meaningful(tail)
    error = _last_error(lines)
    if error is None:
        return any(CRASH.search(line) for line in lines[-LAST_LINES:]) and not is_collateral(tail)
    return not TOLD_TO_END.search(error.root.first_line) and not _blames_a_peer(error.root, lines)


def final_error(tail: str) -> Optional[Traceback]:
    """The last traceback of the program itself, wherever it is in `tail`."""
    found = errors(without_summary(meaningful(tail)))
    return found[-1] if found else None


def last_texts(tail: str) -> str:
    """The lines of a log's end that may explain it."""
    return "\n".join(meaningful(tail)[-LAST_LINES:])


def _last_error(lines: List[str]) -> Optional[Traceback]:
    """The last error if nothing much was printed after it; one that was survived explains nothing.

    Of several ranks in one log, under a torchrun of the job's own, the last that does not blame a peer.
    """
    before = without_summary(lines)
    found = errors(before)
    if not found or found[-1].after >= LAST_LINES:
        return None
    own = [error for error in found if not _blames_a_peer(error.root, before)]
    return own[-1] if own and len(before) < len(lines) else found[-1]


def _blames_a_peer(error: Traceback, lines: List[str]) -> bool:
    """Whether this exception is of torch, by its type, and about a peer, by its text or by its frame and text."""
    text = "\n".join(error.text)
    if not TORCH_ERRORS.match(error.first_line) or OWN.search(text):
        return False
    if "client socket has" in text and any("gai error" in line for line in lines):
        return False  # the name of the head has no address here; torch says so in its log only
    if PEER.search(text):
        return True
    in_torch = bool(error.frames) and bool(TORCH_FRAMES.search(error.frames[-1]["file"]))
    return in_torch and bool(BARE.search(error.first_line))


def is_oom(lines: List[str]) -> bool:
    """Whether these lines of the kernel log report an OOM kill."""
    return any(OOM_EVENT.search(line) or OOM_GROUP.search(line) or OOM_KILLED.search(line) for line in lines)


def blames_a_peer(log: Path) -> bool:
    """Whether the end of this log is torch's message about a lost peer; False if it cannot be read."""
    try:
        with open(str(log), "rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - LAST_BYTES))
            return is_collateral(handle.read().decode("utf-8", "replace"))
    except OSError:
        return False
