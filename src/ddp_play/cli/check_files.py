"""Options of `ddp-play check` beyond its level, and the files that it writes for people."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddp_play.bundle.paths import write_text
from ddp_play.checks import record_store
from ddp_play.checks.burn_in import DEFAULT_WITHIN
from ddp_play.checks.check_page import page
from ddp_play.checks.check_scope import CheckScope
from ddp_play.checks.fleet import BURN_IN
from ddp_play.checks.ticket_bundle import is_archive, write_bundle
from ddp_play.checks.time_budget import budget_of
from ddp_play.cli import check_quarantine, console, options
from ddp_play.cli.next_commands import as_word
from ddp_play.cli.page_file import writing
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from ddp_play.checks.fleet import Fleet

WITHIN = "Most time in all (30s, 2m): what does not fit is not run, with exit code 69. Of a burn-in: its length, 10m."
RECORD = "Keep the figures of hosts that are well; later checks compare with them."
NAMES = "give another name; a bundle whose name ends in .tar.gz is an archive, another one a directory"
BUNDLE = "Also write all readings and findings for a ticket: a new directory, or FILE.tar.gz."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a check; None: not given."""

    quarantine: Annotated[bool, typer.Option("--quarantine", help=check_quarantine.QUARANTINE)] = False
    release: Annotated[bool, typer.Option("--release", help=check_quarantine.RELEASE)] = False
    within: Annotated[str | None, typer.Option("--within", help=WITHIN)] = None
    record: Annotated[bool, typer.Option("--record", help=RECORD)] = False
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page, one file.")] = None
    bundle: Annotated[Path | None, typer.Option("--bundle", help=BUNDLE)] = None

    def scope(self, level: str) -> CheckScope:
        """What is asked of the hosts. UsageError if a file cannot be written: nobody wants to hear that at the end."""
        self._check_files()
        if self.record:
            record_store.prepare()
        within = DEFAULT_WITHIN if self.within is None and level == BURN_IN else self.within
        return CheckScope(level, budget_of(within), self.record, outputs=self.bundle is not None)

    def choice(self, *, of_job: bool = False) -> check_quarantine.Choice:
        """What follows the check. UsageError for options that exclude each other, or a playbook (`of_job`)."""
        for option, is_given in (("--release", self.release), ("--record", self.record)):
            if of_job and is_given:
                raise UsageError(f"{option} is about hosts, not about a job", hint="leave out the playbook")
        return check_quarantine.chosen(quarantine=self.quarantine, release=self.release)

    def _check_files(self) -> None:
        for option, path in (("--html", self.html), ("--bundle", self.bundle)):
            if path is None:
                continue
            folder, is_folder = path.absolute().parent, option == "--bundle" and not is_archive(path)
            if not folder.is_dir():
                raise UsageError(f"{option} {path}: there is no directory {folder}", hint=f"mkdir -p {as_word(folder)}")
            if path.exists() and path.is_dir() != is_folder:
                raise UsageError(f"{option} {path}: that is {'a directory' if path.is_dir() else 'a file'}", hint=NAMES)
            if option == "--bundle" and path.exists() and not (is_folder and not any(path.iterdir())):
                raise UsageError(f"{option} {path} is there already", hint="give another name: a bundle is evidence")
            if not os.access(path if path.is_dir() else folder, os.W_OK):
                raise UsageError(f"{option} {path}: no permission to write there", hint="give another directory")

    def write(self, fleet: Fleet, answer: dict[str, Any], shown: list[dict[str, Any]], took_s: float) -> None:
        """Write the files that are wanted, and say so. `shown`: the findings for people."""
        about = {
            "made": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "took_s": round(took_s, 1),
            "command": shlex.join(["ddp-play", *sys.argv[1:]]),  # secrets in it were refused
        }  # fmt: skip
        if self.html is not None:
            with writing(self.html):
                write_text(self.html, page(fleet, {**answer, "findings": shown}, about))
            console.note(f"page: {self.html}")
        if self.bundle is not None:
            with writing(self.bundle):
                write_bundle(self.bundle, fleet, answer, about)
            console.note(f"bundle: {self.bundle}")


with_wanted = options.with_group("wanted", Wanted, *(field.name for field in fields(Wanted)))
