"""`ddp-play export`: a job as a script or manifest for another scheduler, which runs without ddp-play."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddp_play.cli import console, options
from ddp_play.cli.engine_job import job_of
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.next_commands import as_word
from ddp_play.cli.page_file import check_output, writing
from ddp_play.engines.slurm_export import export_script
from ddp_play.errors import UsageError

TARGETS = ("slurm",)


@options.with_ansible
def export(
    *,
    playbook: options.Playbook = None,
    inventory: options.Inventory = None,
    to: Annotated[str, typer.Option("--to", help="For which scheduler: slurm.")] = "slurm",
    slurm: options.Slurm = None,
    output: Annotated[Path | None, typer.Option("--output", help="File to write; else standard output.")] = None,
    ansible: options.Ansible,
) -> None:
    """Write the job as one sbatch script that a person can read and run without ddp-play.

    It keeps the first failing rank's exit code, and ends with a table of what ddp-play does and the script does not.

    [bold]Examples[/]

      ddp-play export train.yml --to slurm -e ddp_job_hosts=4 > train.sh; sbatch train.sh
    """
    with error_boundary():
        if to not in TARGETS:
            raise UsageError(f"no export to {to}", hint=f"--to is one of: {', '.join(TARGETS)}")
        if output is not None:
            check_output(output, example="train.sh")
        request = ansible.request(playbook, inventory, allocated=True)
        script = export_script(job_of(request, slurm), Path(request.playbook).name)
        if output is None:
            console.line(script.rstrip("\n"))
            return
        with writing(output):
            output.write_text(script, encoding="utf-8")
        console.note(f"{output}: sbatch {as_word(output)}")
