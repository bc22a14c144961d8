"""What the role's action plugins do, without Ansible: they hand over plain values and get plain values back."""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import json
import os
import re
import socket
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.collection import collection_root
from ddp_play.errors import DdpPlayError, HostNotReady, InternalError, UsageError
from ddp_play.fleet import Fleet, callers_values, job_from_json
from ddp_play.guard.protocol import BEGIN, END
from ddp_play.hosts import HostFacts, Problem, facts_from_json
from ddp_play.job import Job, check_names, parse_job
from ddp_play.names import new_run_id, new_token
from ddp_play.paths import RunPaths, home, read_json, write_bytes, write_json
from ddp_play.plan import Plan, plan_from_json
from ddp_play.planning import make_plan
from ddp_play.remote import Route
from ddp_play.result import RunStatus, error_fields
from ddp_play.setting import Asked
from ddp_play.source import take_snapshot
from ddp_play.workflows.attempts import Attempts
from ddp_play.workflows.starting import Assignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.jobsecrets import JobSecrets
    from ddp_play.result import Outcome

RUN_DIR_ENV = "DDP_PLAY_RUN_DIR"
FACTS_ENV = "DDP_PLAY_FACTS"
USE_CACHED_ENV = "DDP_PLAY_CACHED"
WAIT_ENV = "DDP_PLAY_WAIT"
# The group of an inventory whose hosts stand by, unless the job names others.
SPARES = "spares"
OLDEST_PYTHON = (3, 9)


def check_same_build(plugin: Path) -> None:
    """The collection that Ansible loaded must be the one this package belongs to: a stale copy mixes silently."""
    loaded, ours = plugin.resolve().parents[2], collection_root().resolve()
    if loaded != ours and _content_hash(loaded) != _content_hash(ours):
        raise InternalError(
            f"Ansible loads the collection ddp.play from {loaded}, which is another build than the package at {ours}",
            hint="install both from one wheel, or remove the stale one",
        )


def _content_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for folder in ("plugins/action", "plugins/plugin_utils", "roles/ddp_job", "templates"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


# -- discover ----------------------------------------------------------------------------------------


def parse_facts(
    stdout: str, stderr: str, *, asked: float, received: float, inventory: dict[str, Any]
) -> dict[str, Any]:
    """The program's answer plus the host variables that concern us. Times in epoch seconds of the controller."""
    facts = parse_answer(stdout, stderr)
    found = tuple(int(part) for part in facts["python_version"].split(".")[:2])
    if found < OLDEST_PYTHON:
        raise HostNotReady(f"Python {facts['python_version']} is too old", hint="3.9 or newer is needed on hosts")
    # Somewhere between asking and receiving the host looked at its clock.
    facts["clock_offset_s"] = round(facts["clock"] - min(max(facts["clock"], asked), received), 3)
    facts["inventory"] = inventory
    return facts


def parse_answer(stdout: str, stderr: str) -> dict[str, Any]:
    """The marked line of JSON in what the program printed; whatever a login shell added is ignored."""
    match = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), stdout, re.DOTALL)
    if not match:
        words = (stderr.strip() or stdout.strip()).splitlines()
        raise HostNotReady(words[-1] if words else "the host gave no answer")
    answer: dict[str, Any] = json.loads(match[1])
    return answer


# What ssh, sudo and Ansible say when a host cannot be used -> kind and remedy.
PROBLEMS: tuple[tuple[str, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "host_key",
        "if the host was reinstalled: ssh-keygen -R {address}; if it is new: connect once with ssh, or ssh-keyscan",
    ),
    (
        r"Permission denied \(|Permission denied, please try again|Invalid/incorrect (username/)?password",
        "credentials",
        "which key does it want? --private-key, -u, or ansible_ssh_private_key_file in the inventory",
    ),
    (
        r"[Mm]issing sudo password|sudo: a password is required|a terminal is required|Incorrect sudo password|"
        r"[Mm]issing become password|Incorrect become password|"
        r"is not in the sudoers file|is not allowed to (run|execute)",
        "become",
        "give the password with -K, or NOPASSWD in sudoers for this user",
    ),
    (
        r"sudo: (command )?not found|sudo: No such file",
        "become",
        "install sudo on {host}, or connect as root with -u root",
    ),
    (r"Could not resolve hostname|Name or service not known", "unreachable", "set ansible_host in the inventory"),
    (
        # dash, bash, and a Python older than 3.7 that reads our program
        r"python[\w.-]*: (command not found|not found|(cannot execute: )?No such file or directory|Permission denied)|"
        r"future feature annotations is not defined",
        "python",
        "install Python 3.9 or newer on {host}, or name it with ansible_python_interpreter",
    ),
)


def problem_from_text(host: str, text: str, address: str, *, reached: bool = False, hint: str = "") -> dict[str, str]:
    """A Problem as data, from whatever the connection said; `reached` when the host itself answered something."""
    lines = re.sub("@{3,}", "", text).splitlines()  # ssh's frame around a changed host key
    words = " ".join(line.strip() for line in lines if line.strip() and not line.startswith("@"))
    for pattern, kind, remedy in PROBLEMS:
        if re.search(pattern, text):
            hint = hint or remedy.format(address=address, host=host)
            return {"host": host, "kind": kind, "message": words[-400:], "hint": hint}
    if reached:
        return {"host": host, "kind": "other", "message": words[-400:] or "it gave no answer", "hint": hint}
    hint = f"is it up? ssh {address}"
    return {"host": host, "kind": "unreachable", "message": words[-400:] or "unreachable", "hint": hint}


# -- plan --------------------------------------------------------------------------------------------


def plan_job(
    values: dict[str, Any],
    discovered: Mapping[str, dict[str, Any]],
    *,
    variable_names: tuple[str, ...],
    secrets: JobSecrets,
    playbook_dir: str,
) -> dict[str, Any]:
    """Make the plan and the run's directory. `discovered` maps hosts to their facts or problem, in play order."""
    check_names(variable_names)
    job = _with_absolute_source(parse_job({k: v for k, v in values.items() if v is not None}), playbook_dir)
    facts, problems = _split(discovered)
    asked = Asked(dict(os.environ), tuple(sorted(secrets.file_names)), secrets.env_names)
    plan = make_plan(job, facts, problems, asked)
    paths = _run_paths()
    paths.create()
    write_json(paths.plan, plan.to_json(), indent=None if plan.world_size > 64 else 2)
    used = {host.name for host in plan.hosts}
    if job.restarts:  # other hosts may take the places of some
        used |= {host.name for host in facts}
        fleet = Fleet(
            job,
            {name: row["facts"] for name, row in discovered.items() if row.get("facts")},
            tuple(dataclasses.asdict(row) for row in problems),
            asked.secret_names,
            callers_values(plan),
            asked.secret_env,
        )
        write_json(paths.fleet, fleet.to_json(), indent=None)
    routes = [row["route"] for name, row in discovered.items() if name in used]
    write_json(paths.channels, {"routes": routes})
    write_json(paths.root / "job.json", job.model_dump(mode="json"))
    _describe_run(paths, plan, facts)
    return {"run_id": paths.run_id, "run_dir": str(paths.root), "summary": summarize(plan)}


def only_cached() -> bool:
    """Was discovery skipped on purpose?"""
    return bool(os.environ.get(USE_CACHED_ENV))


def cached_facts(hosts: list[str], discovered: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """`plan --cached` reads the facts of the last discovery; every discovery leaves them for it."""
    given = os.environ.get(FACTS_ENV)
    if not given:
        return discovered
    path = Path(given)
    if not only_cached():
        write_json(path, {**read_json(path), **{name: row for name, row in discovered.items() if row.get("facts")}})
        return discovered
    known = read_json(path)
    missing = [host for host in hosts if host not in known]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise UsageError(f"no cached facts of {shown}", hint="ddp-play plan without --cached asks the hosts")
    return {host: known[host] for host in hosts}


def _run_paths() -> RunPaths:
    """The directory that `ddp-play run` made for us; a new one under plain ansible-playbook or for a second job."""
    given = os.environ.get(RUN_DIR_ENV)
    if given and not (Path(given) / "plan.json").exists():
        return RunPaths(Path(given))
    return RunPaths(home() / "runs" / new_run_id(home() / "runs"))


def record_failure(error: DdpPlayError, paths: RunPaths | None = None) -> None:
    """A run that ended before it began says why in its run.json."""
    paths = paths or _run_paths()
    paths.create()
    known = read_json(paths.run)
    document = {"id": paths.run_id, **known, **error_fields(error, known), "ended": time.time()}
    write_json(paths.run, document)


def _with_absolute_source(job: Job, playbook_dir: str) -> Job:
    if not job.source:
        return job
    path = Path(job.source).expanduser()
    return job.model_copy(update={"source": str(path if path.is_absolute() else Path(playbook_dir, path).resolve())})


def _split(discovered: Mapping[str, dict[str, Any]]) -> tuple[tuple[HostFacts, ...], tuple[Problem, ...]]:
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
        "owner": getpass.getuser(),
        "controller": socket.gethostname(),
        "created": time.time(),
        **read_json(paths.run),
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
    """Versions of what takes part on the controller."""
    found = {}
    for name in ("ddp-play", "ansible-core", "ansible-runner"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def summarize(plan: Plan) -> str:
    """The plan in one line."""
    hosts = f"{len(plan.hosts)} host" + ("s" if len(plan.hosts) != 1 else "")
    ranks = f"{plan.world_size} rank" + ("s" if plan.world_size != 1 else "")
    what = plan.image or "processes"
    return f"{ranks} on {hosts} ({what}), {plan.backend} over {plan.fabric}, {plan.init_method}"


# -- supervise ---------------------------------------------------------------------------------------


def supervise_run(
    run_dir: str, *, secret_values: dict[str, str], registry: dict[str, str], passwords: dict[str, str]
) -> Outcome:
    """Carry out the plan in `run_dir`."""
    paths = RunPaths(Path(run_dir))
    plan = plan_from_json(read_json(paths.plan))
    job = job_from_json(read_json(paths.root / "job.json"))
    try:
        snapshot = take_snapshot(job) if job.source else None
        if snapshot is not None:
            source = {"path": job.source, "sha256": snapshot.digest, "files": snapshot.num_files}
            write_json(paths.run, {**read_json(paths.run), "source": source})
            if job.restarts:
                write_bytes(paths.source_archive, snapshot.archive)
        routes = tuple(Route.from_json(row) for row in read_json(paths.channels)["routes"])
        wait_s = float(os.environ.get(WAIT_ENV) or 0)
        token = str(read_json(paths.run)["token"])
        given = Assignment(
            plan, routes, paths, snapshot, secret_values, registry, passwords, wait_s=wait_s, token=token
        )
        return Attempts(given).run()
    except DdpPlayError as error:
        record_failure(error, paths)
        raise


def registry_of(image: str) -> str:
    """The registry server in an image reference, as docker's config.json names it."""
    first = image.split("/", 1)[0]
    is_server = "/" in image and ("." in first or ":" in first or first == "localhost")
    return first if is_server else "https://index.docker.io/v1/"
