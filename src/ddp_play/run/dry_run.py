"""Plan of a playbook's job, made without running the playbook: the role ddp_job ends after the plan."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.error_output import NO_HOSTS
from ddp_play.ansible.facts_cache import facts_cache
from ddp_play.ansible.plugin_variables import DESCRIBE_ENV, FACTS_ENV, PLAN_TAG, RUN_DIR_ENV, USE_CACHED_ENV
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.errors import Interrupted, UsageError, error_class
from ddp_play.planning.job import job_from_json
from ddp_play.planning.plan_document import Plan, plan_from_json
from ddp_play.run.source_snapshot import files_to_copy

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.errors import DdpPlayError


def dry_run(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, *, cached: bool = False) -> Plan:
    """The plan that `run` would execute now. UsageError if the playbook has no job for these hosts, or no source."""
    environment = {FACTS_ENV: str(facts_cache(request))}
    if cached:
        environment[USE_CACHED_ENV] = "1"
    with tempfile.TemporaryDirectory(prefix="ddp-play-plan-") as scratch:
        paths = RunPaths(Path(scratch, "plan"))
        if error := run_planning_tasks(request, passwords, runner, paths, environment):
            raise error
        made = plan_from_json(read_json(paths.plan))
        if made.source:
            files_to_copy(job_from_json(read_json(paths.job)))
        return made


def run_planning_tasks(
    request: PlaybookRequest,
    passwords: Passwords,
    runner: PlaybookRunner,
    paths: RunPaths,
    environment: dict[str, str],
) -> DdpPlayError | None:
    """Run the playbook up to the plan, or to the job if only that is wanted. Returns why there is none."""
    paths.create()
    planning = dataclasses.replace(
        request,
        # with tags alone, Ansible would also run the tasks tagged `always`
        tags=(PLAN_TAG,),
        skip_tags=("always",),
        environment={**request.environment, RUN_DIR_ENV: str(paths.root), **environment},
    )
    outcome = runner.run(planning, private_dir=paths.ansible, passwords=passwords, on_event=lambda _: None)
    if verdict := read_json(paths.run).get("verdict"):
        return error_class(verdict["kind"])(verdict["message"], hint=verdict["hint"])
    error = outcome.error()
    if isinstance(error, Interrupted):
        return Interrupted("interrupted while the hosts were asked for the plan: nothing was started")
    wanted = paths.job if DESCRIBE_ENV in environment else paths.plan
    if error is None and not wanted.exists():
        return UsageError(
            "the playbook plans no job: no play with the role ddp.play.ddp_job matched a host",
            hint=NO_HOSTS,
        )
    return error
