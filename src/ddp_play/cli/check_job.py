"""The part of a job in `ddp-play check PLAYBOOK`: its plan, and its terms for the checks of its hosts."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.bounded_execution import ANSWER_S
from ddp_play.ansible.plugin_variables import ANSWER_ENV
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.paths import write_json
from ddp_play.checks.container_checks import judge_containers
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.fleet_answers import ask_fleet
from ddp_play.checks.job_findings import judge_job
from ddp_play.checks.job_terms import terms_of
from ddp_play.cli import console
from ddp_play.provisioning.rolling import without_limit
from ddp_play.run.job_survey import survey_job

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.checks.check_scope import CheckScope
    from ddp_play.checks.finding import Finding
    from ddp_play.planning.remedy_text import Asked


def ask_hosts_of(
    request: PlaybookRequest, passwords: Passwords, scope: CheckScope, asked: Asked
) -> tuple[Fleet, tuple[Finding, ...]]:
    """The hosts of the plan of the request's playbook, asked on the job's terms, and the findings about the job.

    Without a plan no host is asked.
    """
    survey = survey_job(_in_time(request, scope), passwords, AnsibleRunner())
    about_job = judge_job(survey, asked)
    if survey.plan is None or survey.job is None:
        return Fleet(()), about_job
    hosts = ",".join(host.name for host in survey.plan.hosts)
    only_these = dataclasses.replace(request, options=(*without_limit(request.options), "--limit", hosts))
    with tempfile.TemporaryDirectory(prefix="ddp-play-check-") as scratch:
        plan = Path(scratch, "plan.json") if survey.plan.runtime == "docker" else None
        if plan is not None:
            write_json(plan, survey.plan.to_json())
        scope = dataclasses.replace(scope, terms=terms_of(survey.job, survey.plan), plan=str(plan or ""))
        fleet = ask_fleet(only_these, passwords, AnsibleRunner(), scope=scope, say=console.note)
    return fleet, (*about_job, *judge_containers(fleet, asked))


def _in_time(request: PlaybookRequest, scope: CheckScope) -> PlaybookRequest:
    """The request of the plan; with a time budget a host that hangs costs its share of it, as in the check."""
    if not scope.budget.is_limited:
        return request
    limit_s = max(1.0, scope.budget.login_s(ANSWER_S))
    return dataclasses.replace(request, environment={**request.environment, ANSWER_ENV: f"{limit_s:.1f}"})
