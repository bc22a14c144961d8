"""Files of a verb that runs in an allocation, in a directory of their own."""

from __future__ import annotations

import contextlib
import fcntl
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# Directory in the state directory with one per `check`, `collectives` or `bench` that runs in an allocation.
VERBS = "allocations"


@dataclass(frozen=True, slots=True)
class VerbPaths:
    """Files of a verb that runs in an allocation, in a directory of its own that all hosts have."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held by the command that waits for the verb, as long as this command lives."""
        return self.root / "lock"

    @property
    def order(self) -> Path:
        """order.json: `argv`, the command line without the options of the engine, and `cwd`."""
        return self.root / "order.json"

    @property
    def hosts(self) -> Path:
        """Inventory of the allocated hosts."""
        return self.root / "hosts.yml"

    @property
    def out(self) -> Path:
        """Standard output of the verb."""
        return self.root / "stdout"

    @property
    def err(self) -> Path:
        """Standard error of the verb."""
        return self.root / "stderr"

    @property
    def end(self) -> Path:
        """end.json: the verb's exit code as `code`, when it has ended."""
        return self.root / "end.json"

    @property
    def output(self) -> Path:
        """Output of the engine's own script."""
        return self.root / "engine" / "output.log"

    @contextlib.contextmanager
    def attended(self) -> Iterator[None]:
        """Hold the lock: the directory is in use."""
        with self.lock.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def last_change(self) -> float:
        """When a file in the directory was written or replaced last."""
        return max(path.stat().st_mtime for path in (self.root, *self.root.iterdir()))
