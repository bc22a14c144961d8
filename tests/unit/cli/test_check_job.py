"""`ddp-play check PLAYBOOK`: only the hosts of the plan are asked, on the terms of the job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.bundle.paths import read_json
from ddp_play.checks.check_scope import CheckScope
from ddp_play.checks.finding import Status
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.time_budget import NO_LIMIT, budget_of
from ddp_play.cli import check_job
from ddp_play.errors import HostNotReady
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.planning.remedy_text import Asked
from ddp_play.run.job_survey import JobSurvey
from tests.unit.build import engine, hosts, job, plan

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = PlaybookRequest("train.yml", ("inv",), "/site", options=("--limit", "gpus", "-u", "ops"))
ASKED = Asked(("inv",), REQUEST.options)


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> Callable[[JobSurvey], list[tuple[PlaybookRequest, CheckScope]]]:
    """Sets what the playbook tells; returns what is then asked."""
    asked: list[tuple[PlaybookRequest, CheckScope]] = []

    def ask(
        request: PlaybookRequest, _passwords: Passwords, _runner: Any, *, scope: CheckScope, say: Callable[[str], None]
    ) -> Fleet:
        assert callable(say)
        asked.append((request, scope))
        return Fleet(())

    def given(survey: JobSurvey) -> list[tuple[PlaybookRequest, CheckScope]]:
        monkeypatch.setattr(check_job, "survey_job", lambda *_: survey)
        monkeypatch.setattr(check_job, "ask_fleet", ask)
        return asked

    return given


def test_the_hosts_of_the_plan_are_asked_on_the_terms_of_the_job(
    surveyed: Callable[[JobSurvey], list[tuple[PlaybookRequest, CheckScope]]],
) -> None:
    wanted: dict[str, Any] = {"runtime": "process", "hosts": 2, "port_range": "29600-29650"}
    asked = surveyed(JobSurvey(job(**wanted), hosts(3), plan(*hosts(3), **wanted)))
    scope = CheckScope("full", NO_LIMIT, record=True)
    _, about_job = check_job.ask_hosts_of(REQUEST, Passwords(), scope, ASKED)
    ((request, used),) = asked
    assert request.options == ("-u", "ops", "--limit", "h1,h2")
    assert (used.level, used.record, used.terms.port_range) == ("full", True, (29600, 29650))
    assert used.terms.network is not None
    assert [host for host, _ in used.terms.network.addresses] == ["h1", "h2"]
    assert about_job[0].check == "job plan"
    assert about_job[0].status is Status.OK


@pytest.mark.parametrize(("runtime", "has_plan"), [("docker", True), ("process", False)])
def test_the_plan_of_containers_is_in_a_file_as_long_as_the_hosts_are_asked(
    monkeypatch: pytest.MonkeyPatch, runtime: str, *, has_plan: bool
) -> None:
    wanted: dict[str, Any] = {"runtime": runtime, "image": "train:1"}
    made = plan(*hosts(2, engine=engine()), **wanted)
    monkeypatch.setattr(check_job, "survey_job", lambda *_: JobSurvey(job(**wanted), hosts(2), made))
    seen: list[str] = []

    def ask(*_: Any, scope: CheckScope, say: object) -> Fleet:
        assert callable(say)
        seen.append(scope.plan)
        if scope.plan:
            assert plan_from_json(read_json(Path(scope.plan))) == made
        return Fleet(())

    monkeypatch.setattr(check_job, "ask_fleet", ask)
    check_job.ask_hosts_of(REQUEST, Passwords(), CheckScope(), ASKED)
    assert bool(seen[0]) is has_plan
    assert not (has_plan and Path(seen[0]).exists())


def test_without_a_plan_nobody_is_asked_and_the_reason_is_a_finding(
    surveyed: Callable[[JobSurvey], list[tuple[PlaybookRequest, CheckScope]]],
) -> None:
    asked = surveyed(JobSurvey(job(), hosts(2), None, HostNotReady("h2: no torch", hint="install it")))
    fleet, about_job = check_job.ask_hosts_of(REQUEST, Passwords(), CheckScope(), ASKED)
    assert asked == []
    assert fleet.hosts == ()
    assert (about_job[0].status, about_job[0].value, about_job[0].command) == (
        Status.FAIL,
        "h2: no torch",
        "install it",
    )


def test_a_host_that_hangs_costs_the_plan_its_share_of_the_time(
    surveyed: Callable[[JobSurvey], list[tuple[PlaybookRequest, CheckScope]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    surveyed(JobSurvey(job(), hosts(2), None, HostNotReady("h2 hangs")))
    given: list[PlaybookRequest] = []

    def survey(request: PlaybookRequest, *_: Any) -> JobSurvey:
        given.append(request)
        return JobSurvey(None, (), None, HostNotReady("h2 hangs"))

    monkeypatch.setattr(check_job, "survey_job", survey)
    for scope in (CheckScope(), CheckScope(budget=budget_of("30s"))):
        check_job.ask_hosts_of(REQUEST, Passwords(), scope, ASKED)
    free, bounded = (request.environment.get("DDP_PLAY_ANSWER_S") for request in given)
    assert free is None
    assert bounded is not None
    assert 1 <= float(bounded) <= 15
