"""Place of a session on the controller: its directory and socket, and the build that it was started from."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle import run_locks
from ddp_play.bundle.paths import home

PARTS = ("plugins/action", "plugins/plugin_utils", "plugins/filter", "plugins/module_utils")


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Directory of the session of one inventory."""

    root: Path

    @classmethod
    def of(cls, inventory: tuple[str, ...], cwd: str) -> SessionPlace:
        """The place for an inventory; `cwd` tells which one if ansible.cfg names it. Controllers may share the home."""
        key = json.dumps([socket.gethostname(), os.geteuid(), list(inventory) or cwd])
        return cls(home() / "sessions" / hashlib.sha256(key.encode()).hexdigest()[:16])

    @property
    def address(self) -> Path:
        """Where the session listens."""
        return self.root / "socket"

    @property
    def lock(self) -> Path:
        """Locked by the session while it lives."""
        return self.root / "lock"

    @property
    def holder(self) -> int:
        """Pid that the session has written into its lock; 0 without a session, and for one of an earlier version."""
        try:
            return int(self.lock.read_text()) if run_locks.is_locked(self.lock) else 0
        except (OSError, ValueError):
            return 0

    def take(self) -> IO[str]:
        """Lock the place until the file is closed, and write who has it. OSError if another process does."""
        lock = self.lock.open("a+")
        try:
            run_locks.lock(lock)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self.address.unlink(missing_ok=True)  # of a session that was killed
        except OSError:
            lock.close()
            raise
        return lock

    @property
    def log(self) -> Path:
        """Output of a session in the background."""
        return self.root / "log"

    @property
    def program(self) -> Path:
        """In the place of ansible-playbook."""
        return self.root / "ansible-playbook"


def build() -> str:
    """Hash of what a session has in memory: the files of this package and of Ansible, and how Python was started."""
    package = Path(__file__).resolve().parents[1]
    flags = str(sys.flags).replace("safe_path=True", "safe_path=False")  # -P, which own processes have, changes no more
    rows = [flags, sys.version, sys.executable, sys.getfilesystemencoding()]
    rows += sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("PYTHON"))
    for folder in (package, *(collection_root() / part for part in PARTS)):
        for path in sorted(folder.rglob("*.py")):
            found = path.stat()
            rows.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    for name in ("ansible", "ansible_runner"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            rows.append(f"{spec.origin} {Path(spec.origin).parent.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
