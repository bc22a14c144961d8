"""Where a run lives on a host, and writing there so that a crash at any moment leaves readable files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import tempfile
from pathlib import Path
from typing import IO, Any, Dict, Optional

from .protocol import split_run_key

# An order's name: the ranks are frozen, to be looked at and then ended.
FROZEN = "frozen"


def base_dir() -> Path:
    """Root of everything ddp-play keeps on this host: survives a reboot, so that gc can find it."""
    override = os.environ.get("DDP_PLAY_HOST_DIR")
    if override:
        return Path(override)
    if os.geteuid() == 0:
        return Path("/var/lib/ddp-play")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "ddp-play" / "host"


def secrets_base() -> Path:
    """A directory in memory for secrets; per user, because several users share /dev/shm. `secretfiles` makes it."""
    return Path("/dev/shm") / ("ddp-play-%d" % os.geteuid())


def user_name(uid: int) -> str:
    """The user's name, or the number where this host has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "user %d" % uid


def atomic_write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write beside the target, then rename over it."""
    fd, name = tempfile.mkstemp(prefix="." + path.name, dir=str(path.parent))
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
            os.fchmod(handle.fileno(), mode)  # not by its name: others may be able to exchange that
        os.replace(name, str(path))
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """`value` as one JSON document, atomically."""
    atomic_write(path, json.dumps(value, ensure_ascii=True).encode(), mode)


def read_json(path: Path) -> Optional[Dict[str, Any]]:
    """The document, or None where there is none (yet) or it is torn."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class HostRun:
    """Every file of one attempt of one run on one host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spec = root / "spec.json"
        self.state = root / "state.json"
        self.control = root / "control"
        self.logs = root / "logs"
        self.env = root / "env"
        self.src = root / "src"
        self.guard_log = root / "guard.log"
        self.lease = root / "lease"

    @classmethod
    def at(cls, run_key: str, attempt: int, host: str) -> "HostRun":
        """The place of an attempt; the host's inventory name is part of it: two names may be one machine."""
        return cls(base_dir() / "runs" / run_key / ("%d.%s" % (attempt, host)))

    @property
    def run_key(self) -> str:
        """The run's name on hosts, which no other run has (`protocol.run_key`)."""
        return self.root.parent.name

    @property
    def run_id(self) -> str:
        """The run's name for people; runs of other controllers may have it too."""
        return split_run_key(self.run_key)[0]

    @property
    def attempt(self) -> int:
        """Its number, from the name of its directory."""
        number = self.root.name.partition(".")[0]
        return int(number) if number.isdigit() else 0

    @property
    def secrets(self) -> Path:
        """Secrets of this attempt, in memory."""
        return secrets_base() / (self.run_key + "." + self.root.name)

    def rank_dir(self, rank: int) -> Path:
        """What a rank may write for us: metrics, result, error file."""
        return self.root / ("rank-%d" % rank)

    def log(self, rank: int) -> Path:
        """Everything the rank printed, byte for byte."""
        return self.logs / ("rank-%d.log" % rank)

    @property
    def agent_log(self) -> Path:
        """What the host's torchrun itself printed, where one starts the ranks."""
        return self.logs / "torchrun.log"

    def renew_lease(self, seen_s: float) -> None:
        """A controller had heard of this host when its clock (`proc.uptime_s`) was `seen_s`."""
        atomic_write(self.lease, b"%.3f" % seen_s)

    def lease_seen_s(self) -> float:
        """The newest such time, 0 before the first."""
        try:
            return float(self.lease.read_bytes() or 0)
        except (OSError, ValueError):
            return 0.0

    def attend(self) -> IO[Any]:
        """Show that a controller's channel is at work here, for as long as the returned file is open."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = open(str(self.root / "channel.lock"), "a")  # noqa: SIM115 - held open on purpose
        fcntl.flock(handle, fcntl.LOCK_SH)
        return handle

    def attended(self) -> bool:
        """Is one at work here? It prepares the attempt, or brings home what it left."""
        try:
            with open(str(self.root / "channel.lock")) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def order(self, name: str, value: Optional[Dict[str, Any]] = None) -> None:
        """Leave an order (`go`, `stop`, `stop-now`) for the guard."""
        write_json(self.control / name, value or {})

    def ordered(self, name: str) -> Optional[Dict[str, Any]]:
        """The order left under this name, if any."""
        return read_json(self.control / name)

    def take_back(self, name: str) -> None:
        """An order that no longer holds."""
        with contextlib.suppress(OSError):
            (self.control / name).unlink()
