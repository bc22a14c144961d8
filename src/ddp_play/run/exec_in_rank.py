"""Command line that executes a user's command in the environment of a running rank (`ddp-play exec`)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json
from ddp_play.engines.registry import engine_of
from ddp_play.engines.route import Route
from ddp_play.errors import Busy, UsageError
from ddp_play.guard.protocol import INSIDE, rank_dir_name, run_key
from ddp_play.planning.apptainer_exec import launch_env
from ddp_play.planning.launch_placeholders import ATTEMPT, HOST_DIR, RUN_ID, RUN_KEY, SECRETS_DIR, bind
from ddp_play.planning.plan_document import Unit, plan_from_json
from ddp_play.planning.pyxis_step import entered, entering_env

if TYPE_CHECKING:
    from ddp_play.bundle.run_lookup import Run
    from ddp_play.planning.plan_document import Plan

_BEFORE_THE_START = (RunStatus.STARTING, RunStatus.WAITING, RunStatus.PREPARING)


def exec_command(run: Run, rank: int, command: list[str], *, terminal: bool) -> list[str]:
    """The argv to start on this controller; `terminal`: give the command a terminal on the host.

    UsageError if the rank does not exist or the run has ended, Busy if its ranks have not started yet.
    """
    if run.over:
        raise UsageError(
            f"run {run.paths.run_id} has ended: {run.status}", hint=f"ddp-play logs {run.paths.run_id} shows its output"
        )
    if run.status in _BEFORE_THE_START:
        run_id = run.paths.run_id
        raise Busy(
            f"the ranks of run {run_id} do not run yet: {run.status}", hint=f"ddp-play attach {run_id} watches it"
        )
    plan = plan_from_json(read_json(run.paths.plan))
    if not 0 <= rank < plan.world_size:
        raise UsageError(f"run {run.paths.run_id} has ranks 0 to {plan.world_size - 1}, not {rank}")
    host = plan.host_of(rank)
    route = next(Route.from_json(row) for row in read_json(run.paths.channels)["routes"] if row["host"] == host.name)
    there = _host_command(run, plan, rank, command, terminal=terminal)
    return engine_of(route).interactive(route, there, terminal=terminal)


def _host_command(run: Run, plan: Plan, rank: int, command: list[str], *, terminal: bool) -> str:
    host = plan.host_of(rank)
    key = run_key(run.paths.run_id, str(run.document.get("token") or ""))
    values = {RUN_ID: run.paths.run_id, RUN_KEY: key, ATTEMPT: str(run.document.get("attempt", 1))}
    if container := host.rank(rank).container:
        return shlex.join(["docker", "exec", "-it" if terminal else "-i", bind(container, values), *command])
    env_file = run.paths.env(rank)
    variables = [
        line for line in env_file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    directory = (run.document.get("directories") or {}).get(host.name) or _directory_of_an_earlier_version(variables)
    if directory:
        values[HOST_DIR] = directory
    unit = host.rank(rank)
    if plan.runtime == "pyxis":
        given = dict(variable.split("=", 1) for variable in variables)
        env = [f"{name}={value}" for name, value in entering_env(given).items()]
        entry = entered(bind(host.workdir, values), command, directory)
        return f'exec env -i {INSIDE}TERM="$TERM" {shlex.join(env)} {shlex.join(entry)}'
    if unit.image_words:
        return _with_apptainer(unit, f"{directory}/{rank_dir_name(host.ranks.start)}", variables, values, command)
    return f"cd {shlex.quote(bind(host.workdir, values))} && exec env {shlex.join(variables)} {shlex.join(command)}"


def _with_apptainer(unit: Unit, own_dir: str, variables: list[str], values: dict[str, str], command: list[str]) -> str:
    """The command next to the rank, in the same image with the same mounts."""
    known = dict(variable.split("=", 1) for variable in variables)
    for var in unit.env:  # the path of a secret tells where they are
        if var.value.startswith(SECRETS_DIR):
            values[SECRETS_DIR] = known[var.name].removesuffix(var.value.removeprefix(SECRETS_DIR))
    env = [f"{name}={value}" for name, value in launch_env(unit.image_words[0], known, own_dir).items()]
    words = [bind(word, values) for word in unit.image_words]
    return f"cd / && exec env {shlex.join(env)} {shlex.join([*words, *command])}"


def _directory_of_an_earlier_version(variables: list[str]) -> str:
    """The run's directory on the host, from the path of the rank's result: earlier versions did not record it."""
    for variable in variables:
        name, _, value = variable.partition("=")
        if name == "DDP_PLAY_RESULT":
            return value.rsplit("/", 2)[0]
    return ""
