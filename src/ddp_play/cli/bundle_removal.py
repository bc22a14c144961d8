"""What `rm` and `prune` share: the list of bundles that go and stay, the question, and the removal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from ddp_play.bundle.bundle_size import size_of
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.bundle.removal import half_removed, remove, sweep
from ddp_play.bundle.summary import counted, duration
from ddp_play.cli import console
from ddp_play.errors import DdpPlayError

if TYPE_CHECKING:
    from ddp_play.bundle.removal_plan import BundleRecord, RemovalPlan, Rules

COLUMNS = ("remove", "status", "age", "size")
DAY_S = 86_400


@dataclass
class Removal:
    """A plan with the sizes of what goes, and what became of it."""

    plan: RemovalPlan
    rules: Rules
    sizes: dict[str, int] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    half_removed: int = 0
    unanswered: bool = False  # nobody could agree: nothing was removed

    @classmethod
    def of(cls, plan: RemovalPlan, rules: Rules) -> Removal:
        """Look at the sizes of what goes."""
        roots = {record.run: RunPaths.of(record.run) for record in plan.going}
        sizes = {run: size_of(paths.root, read_json(paths.run)) or 0 for run, paths in roots.items()}
        return cls(plan, rules, sizes, half_removed=len(half_removed()))

    def carry_out(self) -> None:
        """Remove all that goes; a bundle that cannot be removed does not stop the rest."""
        self.failed += sweep()
        for record in self.plan.going:
            try:
                if remove(record, self.rules):
                    self.removed.append(record.run)
            except DdpPlayError as error:
                self.failed.append(error.message)

    def to_json(self) -> dict[str, Any]:
        """For --json."""
        return {
            "removable": [_row(record, self.sizes[record.run]) for record in self.plan.going],
            "bytes": sum(self.sizes.values()),
            "kept": [{"run": kept.record.run, "why": kept.why} for kept in self.plan.kept],
            "half_removed": self.half_removed,
            "removed": self.removed,
            "failed": self.failed,
        }


def conclude(removal: Removal, *, yes: bool, as_json: bool, only_list: bool = False) -> None:
    """Show, ask on a terminal, and remove. Exits with 1 if something could not be removed."""
    if not as_json:
        show(removal)
    nothing = only_list or not (removal.plan.going or removal.half_removed)
    if not nothing and (yes or _agreed(removal, may_ask=not as_json)):
        removal.carry_out()
        _report(removal, as_json=as_json)
    if as_json:
        console.as_json(removal.to_json())
    if removal.failed:
        raise typer.Exit(1)


def _agreed(removal: Removal, *, may_ask: bool) -> bool:
    if not (may_ask and console.asks()):
        removal.unanswered = True
        console.note("nothing was removed; repeat the command with --yes to remove them")
        return False
    if typer.confirm(f"Remove {counted(len(removal.plan.going), 'bundle')} for good?", err=True):
        return True
    console.note("nothing was removed")
    return False


def _report(removal: Removal, *, as_json: bool) -> None:
    for text in removal.failed:
        console.error(text)
    if not as_json:
        console.line(f"removed {counted(len(removal.removed), 'bundle')}")


def show(removal: Removal) -> None:
    """Print what goes, the total, and what stays with the reason; those that are only too new are counted."""
    _show_going(removal)
    for kept in removal.plan.kept:
        if not kept.routine:
            console.line(f"kept {kept.record.run}: {kept.why}")
    routine = [kept.why for kept in removal.plan.kept if kept.routine]
    for why in dict.fromkeys(routine):
        console.line(f"kept {routine.count(why)}: {why}")
    if removal.half_removed:
        console.line(f"and what {counted(removal.half_removed, 'killed command')} left")


def _show_going(removal: Removal) -> None:
    if not removal.plan.going:
        console.line("no bundle to remove")
        return
    rows = [_cells(record, removal.sizes[record.run]) for record in removal.plan.going]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, no_wrap=True, justify="right" if column == "size" else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    widths = [max(map(len, cells)) + 2 for cells in zip(COLUMNS, *rows, strict=True)]
    console.wide_table(table, columns=sum(widths))
    console.line(f"{counted(len(rows), 'bundle')}, {decimal(sum(removal.sizes.values()))}")


def _cells(record: BundleRecord, size: int) -> tuple[str, ...]:
    status = f"{record.status} (never started)" if record.never_started else record.status
    return record.run, status, _age(time.time() - record.since), decimal(size)


def _age(seconds: float) -> str:
    return f"{int(seconds) // DAY_S} d" if seconds >= DAY_S else duration(seconds)


def _row(record: BundleRecord, size: int) -> dict[str, Any]:
    return {"run": record.run, "status": record.status, "since": record.since, "bytes": size}
