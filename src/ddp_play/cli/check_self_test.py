"""`ddp-play check --self-test`: defects on hosts of a lab, and which of them the check finds."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.bundle.summary import counted
from ddp_play.checks.self_test.defect import HOSTS
from ddp_play.checks.self_test.kinds import DEFECTS, KINDS, NOT_MADE
from ddp_play.checks.self_test.lab_hosts import LabHosts, hosts_of
from ddp_play.checks.self_test.self_test import SelfTest
from ddp_play.cli import console, options
from ddp_play.cli.progress_display import progress
from ddp_play.errors import CheckFailed, UsageError
from ddp_play.lab.lifecycle import down, up
from ddp_play.lab.spec import LabSpec, make_spec
from ddp_play.provisioning.change_listing import host_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.checks.self_test.defect import Defect
    from ddp_play.checks.self_test.trial import Trial

SELF_TEST = "Make defects on hosts of a lab, and tell which of them the check finds; without -i."
LAB = "With --self-test: a lab of four hosts that is up. Without it, one is made and removed."
ONLY = "With --self-test: only defects whose name has this text; repeatable."
STYLES = {"detected": "green", "clean": "green", "MISSED": "bold red", "NOT RUN": "magenta", "not made": "yellow"}
OTHERS = {"missed": "missed", "not_made": "could not be made here", "not_run": "not run"}


@dataclass(frozen=True, slots=True)
class SelfTestOptions:
    """What is tested of the check itself."""

    self_test: Annotated[bool, typer.Option("--self-test", help=SELF_TEST)] = False
    lab: Annotated[str | None, typer.Option("--lab", help=LAB)] = None
    only: Annotated[list[str] | None, typer.Option("--only", help=ONLY)] = None

    def is_wanted(self, *, has_hosts: bool) -> bool:
        """Is the check itself to be tested? UsageError with hosts of the user, or for its options alone."""
        if self.self_test and has_hosts:
            raise UsageError(
                "--self-test makes defects on hosts of a lab, never on hosts of an inventory",
                hint="leave out -i and the playbook; --lab NAME names a lab that is up",
            )
        if not self.self_test and (self.lab or self.only):
            raise UsageError("--lab and --only belong to --self-test", hint="ddp-play check --self-test")
        return self.self_test

    def defects(self) -> tuple[Defect, ...]:
        """The defects to make. UsageError if there is none with such a name."""
        wanted = self.only or [""]
        found = tuple(row for row in DEFECTS if any(text.lower() in row.name.lower() for text in wanted))
        if not found:
            raise UsageError(
                f"no defect has {' or '.join(wanted)} in its name",
                hint=f"there are: {', '.join(row.name for row in DEFECTS)}",
            )
        return found


with_self_test = options.with_group("tested", SelfTestOptions, *(field.name for field in fields(SelfTestOptions)))


def run_if_wanted(chosen: SelfTestOptions, *, has_hosts: bool, as_json: bool) -> None:
    """Test the check and end the command, if that is what is wanted. UsageError as `SelfTestOptions.is_wanted`."""
    if chosen.is_wanted(has_hosts=has_hosts):
        run_self_test(chosen, as_json=as_json)
        raise typer.Exit


def run_self_test(chosen: SelfTestOptions, *, as_json: bool) -> None:
    """Make and check all defects, print the table, and end with 1 if one was missed or something else was found."""
    defects, began = chosen.defects(), time.monotonic()
    with _hosts(chosen.lab) as hosts:
        test = SelfTest(hosts)
        console.note(
            f"{counted(len(defects), 'defect')}, one after the other; each is checked, mended and checked again"
        )
        for at, trial in enumerate(test.run(defects), 1):
            alarms = f", {counted(len(trial.false_alarms), 'false alarm')}" if trial.false_alarms else ""
            console.note(f"{at:>3}  {trial.defect}: {trial.result}{alarms}")
    took_s = time.monotonic() - began
    if as_json:
        console.as_json(document(test, took_s))
    else:
        show(test, took_s)
    if not test.is_right:
        raise typer.Exit(CheckFailed.exit_code)


@contextmanager
def _hosts(lab: str | None) -> Iterator[LabHosts]:
    """The hosts of this lab; without a name those of a new lab, which is removed at the end."""
    if lab is not None:
        yield hosts_of(lab)
        return
    name = f"self-test-{os.getpid()}"
    try:
        with progress(f"lab {name}") as listener:
            up(make_spec(LabSpec(name, len(HOSTS), (), engine=False)), progress=listener)
        yield hosts_of(name)
    finally:
        with progress(f"lab {name}") as listener:
            down(name, force=False, progress=listener)


def document(test: SelfTest, took_s: float) -> dict[str, Any]:
    """The answer for `--json`."""
    return {
        "exit_class": "done" if test.is_right else CheckFailed.kind,
        "trials": [{**row.to_json(), "kind": KINDS.get(row.number, "")} for row in test.trials],
        "never_made": [{"number": number, "kind": KINDS[number], "reason": why} for number, why in NOT_MADE.items()],
        "counts": dict(test.counts()),
        "seconds": round(took_s, 1),
    }


def show(test: SelfTest, took_s: float) -> None:
    """Print a line for each defect, all false alarms, and the numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("defect", "where", "expected", "found"):
        table.add_column(column, overflow="fold")
    table.add_column("seconds", justify="right")
    table.add_column("result")
    for row in test.trials:
        cells = (row.defect, host_ranges(row.where), row.expected, row.found)
        result = f"[{STYLES[row.result]}]{row.result}[/]" if row.is_right else f"[bold red]{_wrong(row)}[/]"
        table.add_row(*map(escape, cells), f"{row.seconds:.1f}", result)
    console.wide_table(table, columns=console.out.width)
    for row in test.trials:
        for alarm in row.false_alarms:
            console.line(f"false alarm  {row.defect}: {alarm}", style="bold red")
    for number, why in NOT_MADE.items():
        console.line(f"never made   {KINDS[number]}: {why}")
    numbers = test.counts()
    texts = [
        f"{numbers['detected']} of {numbers['defects']} defects detected, {numbers['kinds']} of {len(KINDS)} kinds",
        f"{counted(numbers['false_alarms'], 'false alarm')} in {len(test.trials) + numbers['mended']} checks",
        *(f"{numbers[name]} {text}" for name, text in OTHERS.items() if numbers[name]),
    ]
    console.line(f"{'; '.join(texts)}; {took_s:.0f} s")


def _wrong(row: Trial) -> str:
    return row.result if not row.false_alarms else f"{row.result}, {counted(len(row.false_alarms), 'false alarm')}"
