"""Options of `run` about an engine that gives the hosts, and what does not go together with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ddp_play.cli import options
from ddp_play.engines.registry import engine_named
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.cli.options import Ansible
    from ddp_play.cli.run_start import Started

HERE = "ssh"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of `run` about the engine; `with_engine` adds them to a verb."""

    on: Annotated[str, typer.Option("--on", help="Where the hosts come from: ssh (the inventory) or slurm.")] = HERE
    slurm: options.Slurm = None

    @property
    def allocates(self) -> bool:
        """Do the hosts come from somewhere else than the inventory?"""
        return self.on != HERE

    def check(self, ansible: Ansible, *, dry: bool, wait: bool) -> None:
        """UsageError for options that do not go together with the engine, and for an engine that does not exist."""
        engine_named(self.on)
        if self.slurm and not self.allocates:
            raise UsageError("--slurm is for --on slurm, and this run is over ssh", hint="add --on slurm")
        if self.allocates:
            _check_allocated(self.on, ansible, dry=dry, wait=wait)

    def submit(
        self, playbook: str | None, inventory: list[str] | None, ansible: Ansible, *, name: str, output: Path | None
    ) -> Started:
        """Read the job and submit its run. UsageError or HostNotReady if the engine could never start it."""
        from ddp_play.cli.engine_job import submit_run  # noqa: PLC0415 - pydantic's models take 0.05 s

        request = ansible.request(playbook, inventory, allocated=True)
        return submit_run(request, self.on, self.slurm, name=name, output=output)


with_engine = options.with_group("engine", EngineOptions, "on", "slurm")


def _check_allocated(on: str, ansible: Ansible, *, dry: bool, wait: bool) -> None:
    """UsageError for what needs hosts, or a person, when the run is submitted."""
    if ansible.ask_pass or ansible.ask_become_pass or ansible.ask_vault_pass:
        raise UsageError(
            f"a password cannot be typed for a run on {on}: its controller starts when its hosts are free",
            hint="for a vault: --vault-password-file with a file on the shared directory",
        )
    if ansible.limit:
        hint = "--slurm nodelist=NAMES"
        raise UsageError(f"--limit chooses hosts of an inventory, and {on} chooses them here", hint=hint)
    if dry:
        hint = "leave out --dry-run or --on"
        raise UsageError(f"--dry-run asks the hosts, and a run on {on} has none yet", hint=hint)
    if wait:
        raise UsageError(
            f"--wait is for slots of an inventory's hosts; {on} has a queue of its own", hint="leave it out"
        )
