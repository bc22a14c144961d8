"""Plan without a run: which tasks run, and the error of a playbook without a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.facts_cache import facts_cache
from ddp_play.ansible.plugin_variables import FACTS_ENV, RUN_DIR_ENV, USE_CACHED_ENV
from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.bundle.outcome import error_outcome
from ddp_play.bundle.paths import RunPaths, home, write_json
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError
from ddp_play.run.dry_run import dry_run
from ddp_play.run.source_snapshot import take_snapshot
from ddp_play.testing import FakePlaybookRunner
from tests.unit.build import hosts, job, plan

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = PlaybookRequest("/play/train.yml", ("/inv",), "/play", environment={"MINE": "1"})
MADE = plan(*hosts(2))


def plans(request: PlaybookRequest) -> None:
    write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).plan, MADE.to_json())


def refuses(error: DdpPlayError) -> Callable[[PlaybookRequest], None]:
    def work(request: PlaybookRequest) -> None:
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).run, error_outcome(error).to_json())

    return work


def test_the_plan_is_the_playbooks() -> None:
    assert dry_run(REQUEST, Passwords(), FakePlaybookRunner(work=plans)) == MADE


def test_a_source_that_run_would_refuse_is_refused_in_the_same_words(tmp_path: Path) -> None:
    def plans_source(request: PlaybookRequest) -> None:
        paths = RunPaths(Path(request.environment[RUN_DIR_ENV]))
        write_json(paths.plan, plan(*hosts(2), source=str(tmp_path / "src")).to_json())
        write_json(paths.job, job(source=str(tmp_path / "src")).model_dump(mode="json"))

    runner = FakePlaybookRunner(work=plans_source)
    with pytest.raises(UsageError, match="is not a directory") as refused:
        dry_run(REQUEST, Passwords(), runner)
    with pytest.raises(UsageError) as of_run:
        take_snapshot(job(source=str(tmp_path / "src")))
    assert (refused.value.message, refused.value.hint) == (of_run.value.message, of_run.value.hint)
    (tmp_path / "src").mkdir()
    with pytest.raises(UsageError, match="no files to copy"):
        dry_run(REQUEST, Passwords(), runner)
    (tmp_path / "src" / "train.py").touch()
    assert dry_run(REQUEST, Passwords(), runner).source == str(tmp_path / "src")


@pytest.mark.parametrize("cached", [False, True])
def test_only_planning_tasks_run(cached: bool) -> None:
    """Tags alone would still run tasks tagged `always`."""
    runner = FakePlaybookRunner(work=plans)
    dry_run(REQUEST, Passwords(), runner, cached=cached)
    (asked,) = runner.requests
    assert (asked.tags, asked.skip_tags) == (("ddp_job_plan",), ("always",))
    assert asked.environment["MINE"] == "1"
    assert asked.environment[FACTS_ENV] == str(facts_cache(REQUEST))
    assert (USE_CACHED_ENV in asked.environment) is cached


def test_temporary_files_are_removed() -> None:
    runner = FakePlaybookRunner(work=plans)
    dry_run(REQUEST, Passwords(), runner)
    assert not Path(runner.requests[0].environment[RUN_DIR_ENV]).exists()
    assert not (home() / "runs").exists()


def test_a_playbook_that_plans_nothing() -> None:
    with pytest.raises(UsageError, match="the playbook plans no job"):
        dry_run(REQUEST, Passwords(), FakePlaybookRunner())


@pytest.mark.parametrize("error", [UsageError("bad variable", hint="h"), HostNotReady("h1: no engine", hint="install")])
def test_the_planners_error_precedes_that_of_the_playbook(error: DdpPlayError) -> None:
    failed = PlaybookOutcome(PlaybookStatus.FAILED, 2, (TaskFailure("h1", "Plan", "wrapped", False),), "")
    with pytest.raises(type(error)) as caught:
        dry_run(REQUEST, Passwords(), FakePlaybookRunner(failed, work=refuses(error)))
    assert (caught.value.message, caught.value.hint) == (error.message, error.hint)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (PlaybookStatus.FAILED, CheckFailed),
        (PlaybookStatus.UNREACHABLE, HostNotReady),
        (PlaybookStatus.NOT_STARTED, UsageError),
        (PlaybookStatus.CANCELED, Interrupted),
    ],
)
def test_a_playbook_that_failed_before_planning(status: PlaybookStatus, error: type[DdpPlayError]) -> None:
    with pytest.raises(error):
        dry_run(REQUEST, Passwords(), FakePlaybookRunner(PlaybookOutcome(status, 2, (), "tail")))
