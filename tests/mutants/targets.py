"""List of the modules whose tests are tried with mutants, and of the mutants that change nothing (`modules.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutants.mutations import Mutant

LIST = Path(__file__).with_name("modules.toml")


@dataclass(frozen=True)
class Equivalent:
    """A mutant that no test can tell from the module: the function, the changed lines and the reason."""

    function: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class Target:
    """A module, why it is listed, the tests that must kill its mutants, and its equivalent mutants."""

    path: str
    does: str
    tests: tuple[str, ...]
    equivalent: tuple[Equivalent, ...] = ()

    def is_equivalent(self, mutant: Mutant) -> bool:
        """Whether this mutant is listed as equivalent."""
        change = (mutant.function, _plain(mutant.before), _plain(mutant.after))
        return change in {(row.function, _plain(row.before), _plain(row.after)) for row in self.equivalent}


def _plain(line: str) -> str:
    """A line without its comment and with single blanks, which cosmic-ray does not keep."""
    return " ".join(line.partition("  # ")[0].split())


def targets() -> list[Target]:
    """All listed modules."""
    rows = tomllib.loads(LIST.read_text(encoding="utf-8"))["module"]
    return [
        Target(
            row["path"],
            row["does"],
            tuple(row["tests"]),
            tuple(Equivalent(**entry) for entry in row.get("equivalent", ())),
        )
        for row in rows
    ]
