"""Survey of a job: the plan, or the job and its hosts where there can be none."""

from __future__ import annotations

from pathlib import Path

from ddp_play.ansible.facts_cache import facts_cache
from ddp_play.ansible.plugin_variables import FACTS_ENV, RUN_DIR_ENV
from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.bundle.outcome import error_outcome
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import HostNotReady
from ddp_play.run.job_survey import survey_job
from ddp_play.testing import FakePlaybookRunner
from tests.unit.build import hosts, job, plan

REQUEST = PlaybookRequest("/play/train.yml", ("/inv",), "/play")


def test_a_plan() -> None:
    made = plan(*hosts(2))

    def work(request: PlaybookRequest) -> None:
        paths = RunPaths(Path(request.environment[RUN_DIR_ENV]))
        write_json(paths.job, job().model_dump(mode="json"))
        write_json(paths.plan, made.to_json())

    found = survey_job(REQUEST, Passwords(), FakePlaybookRunner(work=work))
    assert (found.job, found.plan, found.error) == (job(), made, None)


def test_an_error_leaves_the_job_and_the_cached_facts_of_the_inventory_stay() -> None:
    write_json(facts_cache(REQUEST), {"h9": {"facts": {}}})

    def work(request: PlaybookRequest) -> None:
        assert request.environment[FACTS_ENV] != str(facts_cache(REQUEST))
        paths = RunPaths(Path(request.environment[RUN_DIR_ENV]))
        write_json(paths.job, job(image="t:1").model_dump(mode="json"))
        write_json(paths.run, error_outcome(HostNotReady("h1: no engine", hint="install it")).to_json())

    found = survey_job(REQUEST, Passwords(), FakePlaybookRunner(work=work))
    assert found.job is not None
    assert found.job.image == "t:1"
    assert isinstance(found.error, HostNotReady)
    assert (found.plan, found.hosts, found.error.message) == (None, (), "h1: no engine")
    assert facts_cache(REQUEST).exists()


def test_a_playbook_without_a_job() -> None:
    found = survey_job(REQUEST, Passwords(), FakePlaybookRunner())
    assert (found.job, found.plan) == (None, None)
    assert "plans no job" in str(found.error)
