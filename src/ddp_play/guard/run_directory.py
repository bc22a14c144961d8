"""Files of a run on a host, written so that a crash at any moment leaves readable files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
from pathlib import Path
from typing import IO, Any, Dict, List, Optional

from . import state_directory
from .protocol import AGENT_LOG, LOGS, SOURCE, rank_dir_name, rank_log_name, split_run_key

# Name of an order: the ranks are frozen, to collect evidence and then to end them.
FROZEN = "frozen"
MEMORY = Path("/dev/shm")
MAX_ATTEMPT_DIGITS = 9  # any process may name a directory of a guard in its command line


def base_dir() -> Path:
    """State directory of this user on this host (`state_directory.choose`)."""
    return Path(state_directory.choose().path)


def bases() -> List[Path]:
    """`base_dir`, and the directory that an earlier version used on a file system of all hosts."""
    earlier = state_directory.earlier()
    return [base_dir(), *([Path(earlier)] if earlier else [])]


def secrets_base() -> Path:
    """Directory of this user for secrets, in memory; `secret_files` creates it unless another user has its name.

    One that exists is found again whatever happens to the usual name, which another user may take or give back.
    """
    usual, own = MEMORY / ("ddp-play-%d" % os.geteuid()), state_directory.find_own(str(MEMORY))
    if not own and os.path.lexists(str(usual)):
        own = state_directory.own_directory(str(MEMORY))
    return Path(own) if own else usual


def user_name(uid: int) -> str:
    """Name of a user, or `user NUMBER` if this host has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "user %d" % uid


def atomic_write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a temporary file in the same directory and rename it to `path`. Raises OSError."""
    name = str(path.with_name(".%s.%s" % (path.name, os.urandom(8).hex())))
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
            os.fchmod(handle.fileno(), mode)  # not by name, which another user may be able to replace
        os.replace(name, str(path))
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """Write `value` as JSON with `atomic_write`."""
    atomic_write(path, json.dumps(value, ensure_ascii=True).encode(), mode)


def read_json(path: Path) -> Optional[Dict[str, Any]]:
    """Read a JSON object; None if the file is missing or is not one."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class HostRun:
    """Paths of one attempt of one run on one host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spec = root / "spec.json"
        self.state = root / "state.json"
        self.control = root / "control"
        self.logs = root / LOGS
        self.env = root / "env"
        self.src = root / SOURCE
        self.guard_log = root / "guard.log"
        self.samples = root / "samples.jsonl"
        self.file_starts = root / "file-starts.json"  # of followed files, where ranks have truncated them
        self.lease = root / "lease"
        self.source_archive = root / "src.archive"
        self.source_pieces = root / "src.pieces"
        self.flight_recorder = root / "flight-recorder"
        self.container = root / "container.json"  # that pyxis has made
        self.container_alive = root / "container.alive"
        self.container_output = root / "container.out"
        self.container_errors = root / "container.err"
        self.guard_lock = root / "guard.lock"
        self.channel_lock = root / "channel.lock"

    @classmethod
    def at(cls, run_key: str, attempt: int, host: str) -> "HostRun":
        """Directory of an attempt; contains the inventory name of the host, because two names may be one machine."""
        places = [base / "runs" / run_key / ("%d.%s" % (attempt, host)) for base in bases()]
        return cls(next((place for place in places if place.is_dir()), places[0]))

    @property
    def base(self) -> Optional[Path]:
        """The state directory that it is in; None if it is elsewhere."""
        return self.root.parents[2] if self.root.parent.parent.name == "runs" else None

    @property
    def run_key(self) -> str:
        """Run id and token, unique among all runs (`protocol.run_key`)."""
        return self.root.parent.name

    @property
    def run_id(self) -> str:
        """Run id; runs of other controllers may have the same."""
        return split_run_key(self.run_key)[0]

    @property
    def attempt(self) -> int:
        """Number of the attempt, from the name of its directory; 0 if it has none."""
        number = self.root.name.partition(".")[0]
        return int(number) if number.isascii() and number.isdigit() and len(number) <= MAX_ATTEMPT_DIGITS else 0

    @property
    def secrets(self) -> Path:
        """Directory of this attempt's secrets, in memory."""
        return secrets_base() / (self.run_key + "." + self.root.name)

    def rank_dir(self, rank: int) -> Path:
        """Directory in which a rank writes metrics, result and error file."""
        return self.root / rank_dir_name(rank)

    def log(self, rank: int) -> Path:
        """Log with everything that the rank printed, unchanged."""
        return self.logs / rank_log_name(rank)

    @property
    def agent_log(self) -> Path:
        """Output of the host's torchrun, if the job uses it."""
        return self.logs / AGENT_LOG

    def renew_lease(self, seen_s: float) -> None:
        """Record that the controller knew the host time `seen_s` (`processes.uptime_s`)."""
        atomic_write(self.lease, b"%.3f" % seen_s)

    def lease_seen_s(self) -> float:
        """Newest time of `renew_lease`, in seconds; 0 before the first."""
        try:
            return float(self.lease.read_bytes() or 0)
        except (OSError, ValueError):
            return 0.0

    def attend(self) -> IO[Any]:
        """Mark that a channel uses this directory, as long as the returned file is open. Raises OSError."""
        for directory in (self.root.parent.parent, self.root.parent, self.root):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)  # of its parents, the umask decides
        path = str(self.channel_lock)
        try:
            handle = open(path, "a+")  # noqa: SIM115 - held open on purpose; NFSv4 shares a lock only with readers
        except OSError:  # read-only or full: the file of an earlier channel does
            handle = open(path)  # noqa: SIM115
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
        except OSError:
            handle.close()
            raise
        return handle

    def attended(self) -> bool:
        """Whether a channel uses this directory, to prepare the attempt or to collect its files."""
        try:
            with open(str(self.channel_lock), "r+") as handle:  # NFSv4 gives an exclusive lock only to writers
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def order(self, name: str, value: Optional[Dict[str, Any]] = None) -> None:
        """Write an order (`go`, `stop`, `stop-now`, `frozen`) for the guard."""
        write_json(self.control / name, value or {})

    def ordered(self, name: str) -> Optional[Dict[str, Any]]:
        """Content of the order of this name; None if there is none."""
        return read_json(self.control / name)

    def take_back(self, name: str) -> None:
        """Remove an order."""
        with contextlib.suppress(OSError):
            (self.control / name).unlink()
