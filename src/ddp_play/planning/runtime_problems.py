"""Why hosts cannot start the ranks of a job: their Python, Docker engine, Apptainer, or the image. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.planning.apptainer_images import is_pulled
from ddp_play.planning.host_differences import one_line
from ddp_play.planning.refused_hosts import Refused, refuse_all

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import Apptainer, HostFacts, ImageFile
    from ddp_play.planning.job import Job

# Words of an engine that runs and does not answer: provisioning would not help.
SILENT_ENGINE = "the engine did not answer"
PROVISION_ENGINE = "ddp-play provision -i INVENTORY --limit HOSTS --tags docker_engine installs or starts it"
# The first with `--no-eval`: without it a shell would read the values of the ranks' variables.
OLDEST = {"apptainer": (1, 1), "singularity-ce": (3, 10)}
# Runtimes whose ranks are in an image that no daemon starts.
NAMES = {"apptainer": "Apptainer", "pyxis": "pyxis"}
INSTALL = (
    "install the package apptainer on HOSTS, or put its directory into the PATH that a login without a terminal has "
    "there (environment modules do not)"
)


def check_runtime(job: Job, hosts: tuple[HostFacts, ...]) -> None:
    """Refuse settings that the job's runtime has no place for, and hosts that cannot start its ranks.

    Raises UsageError, or HostNotReady with all of these hosts.
    """
    _check_settings(job)
    refuse_all(row for row in (runtime_problem(job, host) for host in hosts) if row is not None)


def _check_settings(job: Job) -> None:
    runtime = job.chosen_runtime
    if runtime != "docker" and job.groups:
        raise UsageError(
            f"ddp_job_groups ({', '.join(job.groups)}) is for {'containers' if runtime == 'process' else 'Docker'}, "
            "and the ranks are processes: they have the groups of their user",
            hint="add the user to these groups on the hosts and unset ddp_job_groups"
            + (", or set ddp_job_image" if runtime == "process" else ""),
        )
    if runtime in NAMES and job.backend == "mpi":
        raise UsageError(
            f"backend mpi is not supported with {NAMES[runtime]}: whose MPI the ranks would load is not decided",
            hint="ddp_job_backend: gloo or nccl, or runtime docker or process",
        )
    if runtime == "pyxis" and job.user:
        raise UsageError(
            f"ddp_job_user is {job.user}, and pyxis makes containers for the user of the Slurm job alone",
            hint="submit the job as that user, and unset ddp_job_user",
        )


def unused_limits(job: Job) -> list[str]:
    """Warning about limits that only Docker sets, and mounts that only an image has."""
    names = [f"ddp_job_{name}" for name in ("memory", "shm_size") if getattr(job, name)]
    if job.chosen_runtime == "process":
        # a path that is the same on both sides is there without a mount
        names += ["ddp_job_mounts"] if any(mount.source != mount.target for mount in job.mounts) else []
        why = "without ddp_job_image ranks are processes of the host, with its files and the limits of the login"
        return [f"{' and '.join(names)} without effect: {why}"] if names else []
    if job.chosen_runtime not in NAMES or not names:
        return []
    where = "Apptainer" if job.chosen_runtime == "apptainer" else "a container of pyxis"
    return [
        f"{' and '.join(names)} without effect: ranks in {where} have the limits of their login or of the Slurm job, "
        "and the host's /dev/shm"
    ]


def image_differences(job: Job, hosts: tuple[HostFacts, ...]) -> list[str]:
    """Warning if the image's files have ids of their own: they were made or pulled one by one."""
    if job.chosen_runtime != "apptainer":
        return []
    ids = {host.name: host.apptainer.image.id for host in hosts if host.apptainer and host.apptainer.image}
    if len(set(ids.values())) < 2:
        return []
    shown = one_line({name: (number or "none")[:12] for name, number in ids.items()})
    return [
        f"{job.image} is not one file for all hosts, and what is in it may differ (ids: {shown}); "
        "put one copy on a directory that all share"
    ]


def runtime_problem(job: Job, host: HostFacts) -> Refused | None:
    """Why the host cannot start ranks of this job: its Python, or its engine or Apptainer and the image."""
    if job.chosen_runtime == "process":
        return _python_problem(host)
    if job.chosen_runtime == "pyxis":
        return None  # whether it makes the container is seen when it does
    return _engine_problem(job, host) if job.chosen_runtime == "docker" else _apptainer_problem(job, host)


def _python_problem(host: HostFacts) -> Refused | None:
    if not host.rank_python_problem:
        return None
    return Refused(host.name, host.rank_python_problem, "set ddp_python for HOSTS in the inventory to a Python there")


def _engine_problem(job: Job, host: HostFacts) -> Refused | None:
    engine = host.engine
    if engine is None:
        return Refused(
            host.name, "the container engine was not queried", "leave out --cached: the hosts are then asked"
        )
    if engine.permission:
        return Refused(
            host.name,
            engine.problem,
            f"ddp-play provision -i INVENTORY --limit HOSTS --tags docker_engine "
            f'-e \'{{"docker_engine_users": ["{host.user.name}"]}}\' adds {host.user.name} to group docker; '
            "or use become (-b)",
        )
    if SILENT_ENGINE in engine.problem:
        return Refused(host.name, engine.problem, "on HOSTS: systemctl status docker; journalctl -u docker -n 50")
    if engine.problem or not engine.cli:
        why = engine.problem or "the engine responds, but the docker command is missing"
        return Refused(host.name, why, f"{PROVISION_ENGINE}; or set ddp_job_runtime to process")
    if job.image_pull == "never" and engine.image is None:
        return Refused(
            host.name, f"image {job.image} is missing and ddp_job_image_pull is never", load_image(job.image)
        )
    return None


def load_image(image: str) -> str:
    """Command that copies the image from the controller to hosts."""
    return f"ddp-play image load -i INVENTORY --limit HOSTS --image {image}"


def _apptainer_problem(job: Job, host: HostFacts) -> Refused | None:
    found = host.apptainer
    if found is None:
        return Refused(host.name, "Apptainer was not looked for", "leave out --cached: the hosts are then asked")
    if found.problem:
        return Refused(host.name, found.problem, INSTALL)
    if old := _too_old(found):
        return Refused(host.name, old, "install Apptainer 1.1 or newer on HOSTS, or SingularityCE 3.10 or newer")
    return None if is_pulled(job.image) else _image_problem(job, host, found.image)


def _image_problem(job: Job, host: HostFacts, image: ImageFile | None) -> Refused | None:
    if image is None:
        return Refused(host.name, "the image was not looked at", "leave out --cached: the hosts are then asked")
    if not image.problem:
        return None
    user = job.user or host.user.login_name
    return Refused(
        host.name,
        f"image {job.image} {image.problem}",
        f"put it on a directory that all hosts share, or copy it to HOSTS, where {user} has to read it",
    )


def _too_old(found: Apptainer) -> str:
    """Why this version cannot be used; empty if it can. A version without numbers is taken for a new one."""
    oldest = OLDEST.get(found.name)
    if oldest is None:
        return f"{found.program} is {found.name} {found.version}, which ddp-play does not know"
    numbers = tuple(int(part) for part in re.findall(r"\d+", found.version)[:2])
    if len(numbers) == 2 and numbers < oldest:
        return f"{found.program} is {found.name} {found.version}; {'.'.join(map(str, oldest))} or newer is needed"
    return ""
