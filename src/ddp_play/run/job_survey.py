"""What planning finds out about a job and its hosts, also where there can be no plan (`ddp-play doctor PLAYBOOK`)."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.plugin_variables import FACTS_ENV
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.errors import Interrupted
from ddp_play.planning.host_facts import HostFacts, facts_from_json
from ddp_play.planning.job import Job, job_from_json
from ddp_play.planning.limit_names import ABOUT_LIMIT
from ddp_play.planning.plan_document import Plan, plan_from_json
from ddp_play.run.dry_run import run_planning_tasks

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.errors import DdpPlayError


@dataclass(frozen=True, slots=True)
class JobSurvey:
    """A job, the hosts that answered when they were asked for it, and its plan or the error why there is none.

    Without `job` the playbook did not get as far.
    """

    job: Job | None
    hosts: tuple[HostFacts, ...] = ()
    plan: Plan | None = None
    error: DdpPlayError | None = None


def survey_job(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner) -> JobSurvey:
    """Run the playbook up to the plan. The cached facts of the inventory stay as they are.

    Raises the error of a wrong --limit, and after an interruption: neither is about the job.
    """
    with tempfile.TemporaryDirectory(prefix="ddp-play-survey-") as scratch:
        paths, facts = RunPaths(Path(scratch, "plan")), Path(scratch, "facts.json")
        error = run_planning_tasks(request, passwords, runner, paths, {FACTS_ENV: str(facts)})
        if isinstance(error, Interrupted) or (error is not None and error.message.startswith(ABOUT_LIMIT)):
            raise error
        hosts = tuple(facts_from_json(name, row["facts"]) for name, row in read_json(facts).items())
        job = read_json(paths.job)
        plan = None if error else plan_from_json(read_json(paths.plan))
        return JobSurvey(job_from_json(job) if job else None, hosts, plan, error)
