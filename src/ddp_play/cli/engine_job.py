"""The job of a run whose hosts come from an engine, with the settings of the command line, and its submission."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ddp_play.ansible.runner import AnsibleRunner, Passwords
from ddp_play.cli.run_start import Started, held_interrupts
from ddp_play.engines.registry import engine_named
from ddp_play.errors import Interrupted, UsageError
from ddp_play.planning.slurm_settings import SlurmSettings, parse_pairs
from ddp_play.run.engine_runs import submit
from ddp_play.run.job_reading import read_job
from ddp_play.run.submission import create_run, discard_run

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.ansible.runner import PlaybookRequest
    from ddp_play.planning.job import Job


def submit_run(
    request: PlaybookRequest, on: str, slurm: list[str] | None, *, name: str, output: Path | None
) -> Started:
    """Read the job and submit its run. UsageError or HostNotReady if the engine could never start it."""
    job = job_of(request, slurm)
    with held_interrupts() as held:
        paths = create_run(request, name=name, output=output, argv=sys.argv)
    if held.came:
        discard_run(paths, output)
        raise Interrupted(f"interrupted before run {paths.run_id} was submitted: nothing was submitted or kept")
    submit(paths, job, engine_named(on))
    return Started(paths)


def job_of(request: PlaybookRequest, slurm: list[str] | None) -> Job:
    """The job of the playbook, with the settings of --slurm over its own. UsageError for a value of the wrong form."""
    pairs = parse_pairs(slurm or [])
    job = read_job(request, Passwords(), AnsibleRunner())
    return job.model_copy(update={"slurm": _with_pairs(job.slurm, pairs)})


def _with_pairs(settings: SlurmSettings, pairs: dict[str, str]) -> SlurmSettings:
    try:
        return SlurmSettings.model_validate({**settings.model_dump(), **pairs})
    except ValidationError as error:
        names = ", ".join(f"--slurm {row['loc'][0]}={row['input']}" for row in error.errors())
        raise UsageError(f"{names}: sbatch takes no such value", hint="man sbatch") from None
