"""Findings about one job: what its ranks need on their hosts, from the facts that its plan is made of.

What the facts do not tell is a finding of its own that says so.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ddp_play.ansible.plan_action import summarize
from ddp_play.bundle.summary import counted
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.host_findings import LEAST_FREE_MIB, USUAL_FREE_MIB, merged, with_names
from ddp_play.errors import DdpPlayError
from ddp_play.planning.planner import gpu_problem, rank_count, what_makes_usable
from ddp_play.planning.refused_hosts import Refused
from ddp_play.planning.runtime_problems import load_image, runtime_problem
from ddp_play.run.source_files import is_directory
from ddp_play.run.source_snapshot import files_to_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.remedy_text import Asked
    from ddp_play.run.job_survey import JobSurvey

OK, WARN, FAIL, UNCHECKED = Status.OK, Status.WARN, Status.FAIL, Status.UNCHECKED


def judge_job(survey: JobSurvey, asked: Asked) -> tuple[Finding, ...]:
    """All findings about a job; hosts of which the same was found share one."""
    found = [_plan(survey)]
    if survey.job is not None:
        found += _of_source(survey.job, survey.hosts)
        per_host = (replace(row, where=(host.name,)) for host in survey.hosts for row in _of_host(survey.job, host))
        found += merged(per_host)
        found += _of_run(survey.job, survey.hosts)
    if survey.plan is not None:
        names = tuple(host.name for host in survey.plan.hosts)
        found += [Finding("job warning", WARN, text, "the plan says so", where=names) for text in survey.plan.warnings]
        left_out = (
            Finding("job hosts", UNCHECKED, f"left out: {why}", where=(name,)) for name, why in survey.plan.left_out
        )
        found += merged(left_out)
    return tuple(with_names(finding, asked) for finding in found)


def _plan(survey: JobSurvey) -> Finding:
    if survey.plan is not None:
        return Finding("job plan", OK, summarize(survey.plan), where=tuple(host.name for host in survey.plan.hosts))
    error = survey.error
    message, hint = (error.message, error.hint) if error else ("the playbook made no plan", "")
    return Finding("job plan", FAIL, message, "a run would refuse it in the same words", hint)


# -- the controller's part --------------------------------------------------------------------------


def _of_source(job: Job, hosts: tuple[HostFacts, ...]) -> Iterator[Finding]:
    if not job.source:
        yield Finding("job source", OK, "none (ddp_job_source): the script is in the image, or on the hosts")
        return
    try:
        files = files_to_copy(job)
    except DdpPlayError as error:
        yield Finding("job source", FAIL, error.message, "hosts get a copy of it", error.hint)
        return
    size = -(-sum(files.values()) // 1048576)
    num_files = sum(not is_directory(name) for name in files)
    yield Finding("job source", OK, f"{job.source}: {counted(num_files, 'file')}, {size} MiB")
    yield _script(job, files)
    if not any(host.shared for host in hosts):
        yield from merged(replace(_room(host, size), where=(host.name,)) for host in hosts)


def _script(job: Job, files: dict[str, int]) -> Finding:
    """The first word of the command that names a Python file, if its path is below the source."""
    script = next((word for word in job.command if word.endswith(".py")), "")
    if job.workdir:
        return Finding("job script", UNCHECKED, "ddp_job_workdir is a directory of the hosts, or of the image")
    if not script or "{" in script or PurePosixPath(script).is_absolute():
        return Finding("job script", UNCHECKED, "the command names no Python file below the source")
    if str(PurePosixPath(script)) in files:
        return Finding("job script", OK, script)
    command = "correct ddp_job_command, ddp_job_source, or ddp_job_source_include and _exclude"
    return Finding("job script", FAIL, f"{script} is not in what is copied", "the ranks would not find it", command)


def _room(host: HostFacts, source_mib: int) -> Finding:
    free = host.disk_free_mib - source_mib
    if free >= USUAL_FREE_MIB:
        return Finding("job disk", OK, f"room for the source ({source_mib} MiB); how much results need is not known")
    value = f"{host.disk_free_mib} MiB free in {host.state_dir or 'the directory of runs'}, the source has {source_mib}"
    command = "make room there, or set ddp_state_dir for this host, or exclude data with ddp_job_source_exclude"
    return Finding("job disk", FAIL if free < LEAST_FREE_MIB else WARN, value, "source and results go there", command)


# -- the hosts' part --------------------------------------------------------------------------------


def _of_host(job: Job, host: HostFacts) -> Iterator[Finding]:
    if refused := runtime_problem(job, host):
        yield _refused("job runtime", refused)
    else:
        yield OF_RUNTIME[job.chosen_runtime](job, host)
    yield _gpus(job, host)
    if host.shared is not None:
        yield _shared(host)


def _refused(check: str, refused: Refused) -> Finding:
    return Finding(check, FAIL, refused.why, "a run refuses this host", refused.remedy)


def _image(job: Job, host: HostFacts) -> Finding:
    image = host.engine.image if host.engine else None
    if job.image_pull == "always":
        return Finding("job image", UNCHECKED, f"{job.image}: each run pulls it; the registry was not asked")
    if image is None:
        why = "the run pulls it; whether the registry answers, and knows it, was not tried"
        return Finding("job image", WARN, f"{job.image} is not there", why, load_image(job.image))
    torch = f", torch {image.torch}" if image.torch else ""
    return Finding("job image", OK, f"{job.image} ({image.id[:19]}{torch})")


def _image_file(job: Job, host: HostFacts) -> Finding:
    found = host.apptainer
    program = f"{found.name} {found.version}" if found else ""
    if found is None or found.image is None:
        return Finding(
            "job image", UNCHECKED, f"{job.image}: each run pulls it ({program}); the registry was not asked"
        )
    number = f", id {found.image.id[:12]}" if found.image.id else ""
    why = f"what is in it was not started ({program}); a run starts it on each host before the ranks"
    return Finding("job image", OK, f"{job.image} ({found.image.kind}{number})", why)


def _node_image(job: Job, _host: HostFacts) -> Finding:
    why = "a run has pyxis make the container on each node before the ranks"
    return Finding("job image", UNCHECKED, f"{job.image}: nodes were not asked for it ({why})")


def _python(_job: Job, host: HostFacts) -> Finding:
    if host.rank_torch:
        return Finding("job python", OK, f"{host.rank_python}, torch {host.rank_torch}")
    provision = "ddp-play provision -i INVENTORY --limit HOSTS --tags python_env"
    command = f"set ddp_python to a Python with torch; {provision} makes one"
    return Finding("job python", WARN, f"no torch in {host.rank_python}", "ranks that import it fail", command)


OF_RUNTIME = {"docker": _image, "apptainer": _image_file, "pyxis": _node_image, "process": _python}


def _gpus(job: Job, host: HostFacts) -> Finding:
    if job.gpus == "none":
        return Finding("job gpus", OK, "none asked for (ddp_job_gpus)")
    if refused := gpu_problem(job, host):
        return _refused("job gpus", refused)
    try:
        count = rank_count(job, host, job.backend)
    except DdpPlayError as error:
        return _refused("job gpus", Refused(host.name, error.message.removeprefix(f"{host.name}: "), error.hint))
    if host.gpu_problem:
        return Finding("job gpus", WARN, host.gpu_problem, "ranks may find no GPU", "nvidia-smi")
    busy = [f"GPU {gpu.index} ({', '.join(gpu.users)})" for gpu in host.gpus if gpu.users]
    if busy:
        return Finding("job gpus", WARN, f"in use: {'; '.join(busy)}", "their memory is taken", "nvidia-smi")
    return Finding("job gpus", OK, f"{len(host.gpus)} for {count} ranks" if host.gpus else "none: ranks use CPUs")


def _shared(host: HostFacts) -> Finding:
    shared = host.shared
    if shared is None or not shared.problem:
        return Finding("job shared dir", OK, shared.path if shared else "none")
    value, command = f"{shared.path}: {shared.problem}", what_makes_usable(shared, host.user)
    return Finding("job shared dir", FAIL, value, "source and checkpoints are kept there", command)


def _of_run(job: Job, hosts: tuple[HostFacts, ...]) -> Iterator[Finding]:
    """What only a run finds out."""
    names = tuple(host.name for host in hosts)
    low, high = job.port_range
    yield Finding("job port", UNCHECKED, f"which of {low}-{high} is free is tried when a run begins", where=names)
    if job.mounts:
        sources = ", ".join(mount.source for mount in job.mounts)
        yield Finding("job mounts", UNCHECKED, f"{sources}: looked at when a run creates its containers", where=names)
