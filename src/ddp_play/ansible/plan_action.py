"""Code of the action plugin `plan`: the plan and the run directory, from the job's variables and host facts."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.discover_action import discover_in_waves
from ddp_play.ansible.plugin_variables import DESCRIBE_ENV, ENGINE_ENV, RUN_DIR_ENV
from ddp_play.bundle.controller_user import expanded, user_name
from ddp_play.bundle.disk_space import DiskSpace
from ddp_play.bundle.format_version import format_stamp
from ddp_play.bundle.outcome import RunStatus, error_fields
from ddp_play.bundle.paths import RunPaths, read_json, runs_dir, write_json
from ddp_play.bundle.run_ids import new_run_id, new_token
from ddp_play.bundle.summary import counted
from ddp_play.errors import UsageError
from ddp_play.planning.discovery_order import not_asked
from ddp_play.planning.host_facts import HostFacts, Problem, facts_from_json
from ddp_play.planning.job import Job, check_names, parse_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ddp_play.errors import DdpPlayError
    from ddp_play.planning.job_secrets import JobSecrets
    from ddp_play.planning.plan_document import Plan
    from ddp_play.planning.rank_context import Caller

# Group of the inventory with the job's spare hosts, unless the job names others.
SPARES = "spares"


def plan_job(
    values: dict[str, Any],
    hosts: list[str],
    ask: Callable[[Job, list[str]], dict[str, dict[str, Any]]],
    *,
    secrets: JobSecrets,
    places: Mapping[str, str],
    playbook_dir: str,
    paths: RunPaths,
) -> dict[str, Any]:
    """Make the plan and the run's directory, `paths`.

    `hosts`: those of the play. `ask` returns `facts` and `route`, or `problem`, of each of the hosts that it is given,
    and the places of its `variables`. `places`: those of the ddp_* variables of the play, read on one of its hosts.
    """
    job = _checked_job(values, places, playbook_dir)
    if os.environ.get(DESCRIBE_ENV):
        return _describe_job(job, paths)
    discovered = discover_in_waves(job, hosts, ask)
    # `ask` imports the planner too, while it waits for the answers.
    from ddp_play.planning.planner import make_plan  # noqa: PLC0415
    from ddp_play.planning.rank_context import Caller  # noqa: PLC0415

    made = paths.root.exists()
    if made:  # by ddp-play: doctor reads the job also where there is no plan
        write_json(paths.job, job.model_dump(mode="json"))
    check_names({name: place for row in discovered.values() for name, place in (row.get("variables") or {}).items()})
    facts, problems = _facts_and_problems(discovered)
    caller = Caller(dict(os.environ), tuple(sorted(secrets.file_names)), secrets.env_names)
    plan = _with_those_not_asked(make_plan(job, facts, problems, caller), hosts, discovered)
    paths.create()
    write_json(paths.plan, plan.to_json(), indent=None if plan.world_size > 64 else 2)
    if others := job.restarts or job.check != "none":  # after a restart, or in place of an unfit host, they may be used
        write_json(paths.fleet, _fleet(job, discovered, problems, plan, caller), indent=None)
    used = {host.name for host in (facts if others else plan.hosts)}
    write_json(paths.channels, {"routes": [row["route"] for name, row in discovered.items() if name in used]})
    if not made:
        write_json(paths.job, job.model_dump(mode="json"))
    _describe_run(paths, plan, facts)
    return {"run_id": paths.run_id, "run_dir": str(paths.root), "summary": summarize(plan)}


def _with_those_not_asked(plan: Plan, hosts: list[str], discovered: Mapping[str, dict[str, Any]]) -> Plan:
    return dataclasses.replace(plan, left_out=(*plan.left_out, *not_asked(hosts, discovered)))


def _describe_job(job: Job, paths: RunPaths) -> dict[str, Any]:
    """Write the job alone: what is asked of an engine before there are hosts."""
    paths.create()
    write_json(paths.job, job.model_dump(mode="json"))
    return {"run_id": paths.run_id, "run_dir": str(paths.root), "summary": "the job"}


def _check_engine(job: Job) -> None:
    """UsageError if the job's hosts come from another engine than those of this play."""
    if os.environ.get(DESCRIBE_ENV):
        return  # it is asked for by the engine
    if job.runtime == "pyxis" and os.environ.get(ENGINE_ENV) != "slurm":
        raise UsageError(
            "ddp_job_runtime is pyxis, a plugin of Slurm, and the hosts of this play are an inventory's",
            hint="ddp-play run PLAYBOOK --on slurm; over SSH, ddp_job_runtime: docker or apptainer",
        )
    if job.engine != "ssh" and os.environ.get(ENGINE_ENV) != job.engine:
        raise UsageError(
            f"ddp_job_engine is {job.engine}, and the hosts of this play are an inventory's",
            hint=f"ddp-play run PLAYBOOK --on {job.engine}",
        )


def _fleet(
    job: Job,
    discovered: Mapping[str, dict[str, Any]],
    problems: tuple[Problem, ...],
    plan: Plan,
    caller: Caller,
) -> dict[str, Any]:
    """What a restart, and the first attempt without unfit hosts, are planned with."""
    from ddp_play.planning.next_attempt import Fleet, callers_values  # noqa: PLC0415 - not every job needs it

    fleet = Fleet(
        job,
        {name: row["facts"] for name, row in discovered.items() if row.get("facts")},
        tuple(dataclasses.asdict(row) for row in problems),
        caller.secret_names,
        callers_values(plan),
        caller.secret_env,
    )
    return fleet.to_json()


def run_paths() -> RunPaths:
    """Directory that `ddp-play run` made for this run; a new one for ansible-playbook or a second job."""
    given = os.environ.get(RUN_DIR_ENV)
    if given and not RunPaths(Path(given)).plan.exists():
        return RunPaths(Path(given))
    return RunPaths.of(new_run_id(runs_dir()))


def record_failure(error: DdpPlayError, paths: RunPaths) -> None:
    """Write the error of a run that could not start to its run.json."""
    paths.create()
    known = read_json(paths.run)
    document = {"id": paths.run_id, **known, **error_fields(error, known), "ended": time.time()}
    DiskSpace(paths.root).release()
    write_json(paths.run, document)


def _checked_job(values: Mapping[str, Any], places: Mapping[str, str], playbook_dir: str) -> Job:
    """The job of this play's engine, with an absolute path of its source."""
    check_names(places)  # first: the right name of a misspelt variable counts as not set
    job = parse_job({name: value for name, value in values.items() if value is not None}, places)
    _check_engine(job)
    if not job.source:
        return job
    path = expanded(job.source)
    return job.model_copy(update={"source": str(path if path.is_absolute() else Path(playbook_dir, path).resolve())})


def _facts_and_problems(discovered: Mapping[str, dict[str, Any]]) -> tuple[tuple[HostFacts, ...], tuple[Problem, ...]]:
    facts, problems = [], []
    for name, row in discovered.items():
        if row.get("facts"):
            facts.append(facts_from_json(name, row["facts"]))
        else:
            problem = row.get("problem") or {"host": name, "kind": "other", "message": "it was not discovered"}
            problems.append(Problem(**problem))
    return tuple(facts), tuple(problems)


def _describe_run(paths: RunPaths, plan: Plan, facts: tuple[HostFacts, ...]) -> None:
    document = {
        "id": paths.run_id,
        "token": new_token(),
        "job": plan.job,
        "owner": user_name(),
        "controller": socket.gethostname(),
        "created": time.time(),
        **read_json(paths.run),
        **format_stamp(),
        "status": str(RunStatus.STARTING),
        "world_size": plan.world_size,
        "hosts": [host.name for host in plan.hosts],
        "versions": versions(),
        "host_versions": {
            host.name: {
                "python": host.python_version,
                "engine": host.engine.version if host.engine else "",
                "image": host.engine.image.id if host.engine and host.engine.image else "",
                "gpus": [gpu.model for gpu in host.gpus],
            }
            for host in facts
        },
    }
    write_json(paths.run, document)


def versions() -> dict[str, str]:
    """Versions of ddp-play, ansible-core and ansible-runner on the controller."""
    found = {}
    for name in ("ddp-play", "ansible-core", "ansible-runner"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def summarize(plan: Plan) -> str:
    """Summary of the plan in one line."""
    hosts, ranks = counted(len(plan.hosts), "host"), counted(plan.world_size, "rank")
    what = plan.image or "processes"
    return f"{ranks} on {hosts} ({what}), {plan.backend} over {plan.fabric}, {plan.init_method}"
