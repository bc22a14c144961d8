"""The job of a playbook before there are hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.plugin_variables import DESCRIBE_ENV, RUN_DIR_ENV
from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.bundle.outcome import error_outcome
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import UsageError
from ddp_play.run.job_reading import read_job
from ddp_play.testing import FakePlaybookRunner
from tests.unit.build import job

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.planning.job import Job

REQUEST = PlaybookRequest("/play/train.yml", ("/inv",), "/play", options=("--extra-vars", "a=1"))


def describes(found: Job) -> Callable[[PlaybookRequest], None]:
    def work(request: PlaybookRequest) -> None:
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).job, found.model_dump(mode="json"))

    return work


def test_the_job_is_read_as_a_host_of_the_group_ranks_has_it() -> None:
    seen: list[dict[str, object]] = []

    def work(request: PlaybookRequest) -> None:
        seen.append(json.loads(Path(request.inventory[-1]).read_text()))
        describes(job(hosts="2..4"))(request)

    runner = FakePlaybookRunner(work=work)
    assert read_job(REQUEST, Passwords(), runner).hosts == (2, 4)
    (asked,) = runner.requests
    assert asked.inventory[0] == "/inv"
    assert asked.options == ("--extra-vars", "a=1", "--limit", "allocated-host")
    assert asked.environment[DESCRIBE_ENV] == "1"
    assert seen == [{"ranks": {"hosts": {"allocated-host": {"ansible_connection": "local"}}}}]


def test_what_is_wrong_with_the_job_is_told() -> None:
    def refuses(request: PlaybookRequest) -> None:
        error = UsageError("unknown variable ddp_job_hots", hint="did you mean ddp_job_hosts?")
        write_json(RunPaths(Path(request.environment[RUN_DIR_ENV])).run, error_outcome(error).to_json())

    with pytest.raises(UsageError, match="unknown variable ddp_job_hots"):
        read_job(REQUEST, Passwords(), FakePlaybookRunner(work=refuses))


def test_a_playbook_without_a_job_is_refused() -> None:
    with pytest.raises(UsageError, match="the playbook plans no job"):
        read_job(REQUEST, Passwords(), FakePlaybookRunner())


def test_a_source_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        read_job(REQUEST, Passwords(), FakePlaybookRunner(work=describes(job(source=str(tmp_path / "none")))))
