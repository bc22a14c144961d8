"""Files of a verb that runs in an allocation, in a directory of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class VerbPaths:
    """Files of a verb that runs in an allocation, in a directory of its own that all hosts have."""

    root: Path

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
