"""Options of sbatch and the script of a run's job: its body is the run's controller. Pure."""

from __future__ import annotations

import math
import re
import shlex
from typing import TYPE_CHECKING

from ddp_play.engines.interface import OUTPUT
from ddp_play.guard.protocol import ENROOT_CONFIG, PROXIES

if TYPE_CHECKING:
    from ddp_play.engines.interface import Wanted
    from ddp_play.planning.job import Job

# Added to the job's own limits: Slurm's limit is the net below ours, which is exact.
SLACK_MINUTES = 2
SIGNAL_SLACK_S = 15
# What a login over ssh has too, and what imports of images need. The controller's other variables may be secrets, and
# stay with it.
LOGIN_ENVIRONMENT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER", *PROXIES, ENROOT_CONFIG)
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?\Z")


def limit_s(text: str) -> float | None:
    """Seconds of a time limit as Slurm writes it (90, 90:00, 1:30:00, 1-12:00); None without a limit."""
    match = _TIME.fullmatch(text)
    if not match:
        return None
    days, *parts = (int(part) if part else None for part in match.groups())
    first, second, third = parts
    if days is not None:
        return float(days * 86400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0))
    if third is not None:
        return float((first or 0) * 3600 + (second or 0) * 60 + third)
    return float((first or 0) * 60 + (second or 0))


def time_limit(job: Job) -> str:
    """Slurm's time limit of a job: as given, else from ddp_job_max_duration; empty: the partition's."""
    if job.slurm.time or not job.max_duration:
        return job.slurm.time
    return str(math.ceil((job.max_duration + job.grace) / 60) + SLACK_MINUTES)


def num_nodes(job: Job) -> str:
    """Nodes as sbatch wants them, with the spare ones: 4, or 2-4."""
    low, high = (number + job.slurm.spares for number in job.hosts)
    return str(low) if low == high else f"{low}-{high}"


def sbatch_options(wanted: Wanted) -> list[str]:
    """Options of sbatch, most of them from the job. One task per node; the guard starts a node's ranks."""
    job, settings = wanted.job, wanted.job.slurm
    output = str(wanted.run_dir / "engine" / OUTPUT).replace("%", "%%")
    options = [
        f"--job-name={wanted.run_id}",
        f"--comment=ddp-play:{wanted.run_id}",
        f"--nodes={num_nodes(job)}",
        "--ntasks-per-node=1",
        "--exclusive",
        f"--output={output}",
        "--open-mode=append",
        "--requeue" if job.restarts else "--no-requeue",
        f"--signal=B:TERM@{math.ceil(job.grace) + SIGNAL_SLACK_S}",
        "--chdir=/",
    ]
    if limit := time_limit(job):
        options.append(f"--time={limit}")
    if job.restarts and (settings.spares or job.hosts[0] != job.hosts[1]):
        options.append("--no-kill")  # a lost node must not end the job that could go on without it
    return [*options, *(f"--{name}={value}" for name, value in settings.options().items())]


def script(wanted: Wanted, python: str, environment: dict[str, str]) -> str:
    """The job's script. Its exit code is that of the run: the first failing rank's own."""
    run_dir, program = shlex.quote(str(wanted.run_dir)), shlex.quote(python)
    lines = [
        "#!/bin/sh",
        f"# Controller of the run {wanted.run_id}. `ddp-play attach {wanted.run_id}` on a login node follows it.",
        f"if [ ! -x {program} ]; then",
        f'  echo ddp-play: "$(hostname)" has no {program}: install ddp-play on the shared directory',
        "  exit 69",
        "fi",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())),
        f"exec {program} -m {wanted.controller} {run_dir}",
    ]
    return "\n".join(lines) + "\n"


def step_argv(job_id: str, host: str, *, binding: bool) -> list[str]:
    """The command that runs a shell command as a step on one node of a job, with all that the job has there.

    `binding`: Slurm binds tasks to CPUs here, and must not: the plan binds ranks.
    """
    return [
        "srun",
        "--overlap",
        f"--jobid={job_id}",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={host}",
        "--mem=0",
        *(["--cpu-bind=none"] if binding else []),
        "--mpi=none",
        "--chdir=/",
        "--quiet",
        "--unbuffered",  # else output without a newline at its end would wait for more
        f"--export={','.join(LOGIN_ENVIRONMENT)},DDP_PLAY_STEP=1",
        "/bin/sh",
        "-c",
    ]
