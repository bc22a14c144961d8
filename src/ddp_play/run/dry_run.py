"""Planning a playbook without running it: only the job role's planning tasks, never the user's own."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.plugin_variables import FACTS_ENV, RUN_DIR_ENV, USE_CACHED_ENV
from ddp_play.bundle.paths import RunPaths, home, read_json
from ddp_play.errors import UsageError, error_class
from ddp_play.planning.plan_document import Plan, plan_from_json

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner

PLAN_TAG, DISCOVER_TAG = "ddp_job_plan", "ddp_job_discover"


def facts_cache(request: PlaybookRequest) -> Path:
    """Where the facts of this inventory's last discovery are kept."""
    key = hashlib.sha256("\n".join(request.inventory or (request.cwd,)).encode()).hexdigest()[:16]
    return home() / "facts" / f"{key}.json"


def dry_run(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, *, cached: bool = False) -> Plan:
    """The plan that `run` would execute now. A playbook that plans nothing is an error."""
    with tempfile.TemporaryDirectory(prefix="ddp-play-plan-") as scratch:
        paths = RunPaths(Path(scratch, "plan"))
        paths.create()
        environment = {**request.environment, RUN_DIR_ENV: str(paths.root), FACTS_ENV: str(facts_cache(request))}
        if cached:
            environment[USE_CACHED_ENV] = "1"
        planning = dataclasses.replace(
            request,
            # tags alone would still run tasks tagged `always`
            tags=(PLAN_TAG,),
            skip_tags=("always", DISCOVER_TAG) if cached else ("always",),
            environment=environment,
        )
        outcome = runner.run(planning, private_dir=paths.ansible, passwords=passwords, on_event=lambda _: None)
        document = read_json(paths.run)
        if verdict := document.get("verdict"):
            raise error_class(verdict["kind"])(verdict["message"], hint=verdict["hint"])
        error = outcome.error("run it with ansible-playbook -v to see it")
        if error is not None:
            raise error
        if not paths.plan.exists():
            raise UsageError(
                "the playbook plans no job: no play with the role ddp.play.ddp_job matched a host",
                hint="does the inventory have the play's group? ansible-inventory --graph; does --limit leave any?",
            )
        return plan_from_json(read_json(paths.plan))
