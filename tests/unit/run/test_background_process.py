"""Background process: run.json for each combination of the playbook's outcome and the job's."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.ansible.facts_cache import facts_cache
from ddp_play.ansible.plugin_variables import FACTS_ENV, RUN_DIR_ENV
from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.bundle.journal import read_events
from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.errors import DiskFull, HostNotReady, UsageError
from ddp_play.run import background_process
from ddp_play.run.background_process import run_playbook
from ddp_play.testing import FakePlaybookRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUEST = PlaybookRequest("/play/train.yml", ("/inv",), "/play", options=("--limit", "h1"))
FAILURE = TaskFailure("h1", "Send a mail", "no mail server", unreachable=False)
GONE = TaskFailure("h1", "Ping", "no route to host", unreachable=True)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "calm-otter-1")
    paths.create()
    write_json(paths.run, {"id": "calm-otter-1", "status": "starting", "request": REQUEST.to_json()})
    return paths


def ended(status: PlaybookStatus, *failures: TaskFailure, rc: int = 0, tail: str = "") -> PlaybookOutcome:
    return PlaybookOutcome(status, rc, failures, tail)


def job(paths: RunPaths, status: RunStatus, code: int) -> Callable[[PlaybookRequest], None]:
    """The role ran and wrote how its job ended."""
    ranks = (RankOutcome(0, "h1", "exited", exit_code=code),)
    kind = "done" if code == 0 else "rank_failed"

    def work(_request: PlaybookRequest) -> None:
        outcome = Outcome(status, Verdict(kind, "the job's own words", code), ranks)
        write_json(paths.run, {**read_json(paths.run), **outcome.to_json(), "ended": 1.0})

    return work


def carried_out(paths: RunPaths, runner: FakePlaybookRunner) -> dict[str, Any]:
    run_playbook(paths, Passwords(become="hunter2"), runner)
    return read_json(paths.run)


OK, FAILED, NOT_STARTED = PlaybookStatus.OK, PlaybookStatus.FAILED, PlaybookStatus.NOT_STARTED
USAGE, CHECK, NOT_READY = ("failed", 64, "usage"), ("failed", 1, "check_failed"), ("failed", 69, "host_not_ready")
NO_JOB: list[tuple[str, PlaybookOutcome, tuple[str, int, str], str]] = [
    ("nothing ran", ended(OK), USAGE, "the playbook ran no job"),
    ("a task before it", ended(FAILED, FAILURE, rc=2), CHECK, "h1: Send a mail: no mail"),
    ("no details", ended(FAILED, rc=2), CHECK, "the playbook failed (exit code 2)"),
    ("no host answers", ended(PlaybookStatus.UNREACHABLE, GONE, rc=4), NOT_READY, "no route to host"),
    ("bad playbook", ended(NOT_STARTED, rc=4, tail="ERROR! syntax"), USAGE, "ERROR! syntax"),
    ("silent", ended(NOT_STARTED, rc=5), USAGE, "ansible-playbook ended with 5"),
    ("interrupted", ended(PlaybookStatus.CANCELED, rc=254), ("stopped", 130, "interrupted"), "interrupted"),
]


@pytest.mark.parametrize(("outcome", "end", "words"), [case[1:] for case in NO_JOB], ids=[case[0] for case in NO_JOB])
def test_without_a_job(paths: RunPaths, outcome: PlaybookOutcome, end: tuple[str, int, str], words: str) -> None:
    (reserve := paths.root / ".reserve").touch()
    document = carried_out(paths, FakePlaybookRunner(outcome))
    assert not reserve.exists(), "a finished bundle has none"
    assert (document["status"], document["exit_code"], document["exit_class"]) == end
    assert words in document["verdict"]["message"]
    assert document["ended"]
    assert PlaybookRequest.from_json(document["request"]) == REQUEST
    assert [event["status"] for event in read_events(paths.events) if event["type"] == "ended"] == [end[0]]


@pytest.mark.parametrize("outcome", [ended(FAILED, FAILURE, rc=2), ended(OK), ended(NOT_STARTED, rc=5)])
@pytest.mark.parametrize("status", [RunStatus.PREPARING, RunStatus.RUNNING, RunStatus.COLLECTING])
def test_a_supervisor_that_died_alone_leaves_a_run_for_attach(
    paths: RunPaths, outcome: PlaybookOutcome, status: RunStatus
) -> None:
    """The end of the playbook is not the end of the ranks: gc would remove what nobody has collected."""
    before = {"status": str(status), "directories": {"h1": "/state"}}
    write_json(paths.run, {**read_json(paths.run), **before})
    document = carried_out(paths, FakePlaybookRunner(outcome))
    assert {name: document.get(name) for name in before} == before
    assert "ended" not in document
    (warning,) = [event["message"] for event in read_events(paths.events) if event["type"] == "warning"]
    assert warning.startswith("the supervisor died: ")


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({"status": "running", "directories": {"h1": "/state"}}, True),
        ({"status": "succeeded", "exit_class": "done"}, False),
        ({"status": "failed", "exit_class": DiskFull.kind}, True),
    ],
)
def test_a_run_that_another_take_over_has_just_ended_keeps_its_end(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], taken: bool
) -> None:
    """Two `attach` at once: the second found clean hosts, and a run that had succeeded ended with 64."""
    write_json(paths.run, {**read_json(paths.run), **fields})
    asked: list[RunPaths] = []
    monkeypatch.setattr(background_process, "take_over", lambda paths, _passwords: asked.append(paths))
    monkeypatch.setattr(background_process, "start_report", lambda _paths: None)
    monkeypatch.setattr("ddp_play.run.background_process.signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    background_process.in_background(paths, FakePlaybookRunner(ended(OK)), take_over_run=True)
    assert bool(asked) == taken
    assert read_json(paths.run)["status"] == fields["status"]


WITH_JOB: list[tuple[str, tuple[RunStatus, int], PlaybookOutcome, tuple[str, int, str, str]]] = [
    ("all well", (RunStatus.SUCCEEDED, 0), ended(PlaybookStatus.OK), ("succeeded", 0, "done", "the job's own words")),
    (
        "the job failed",
        (RunStatus.FAILED, 7),
        ended(PlaybookStatus.FAILED, FAILURE, rc=2),
        ("failed", 7, "rank_failed", "the job's own words"),
    ),
    (
        "the job failed and was rescued",
        (RunStatus.FAILED, 7),
        ended(PlaybookStatus.OK),
        ("failed", 7, "rank_failed", "the job's own words"),
    ),
    (
        "a task after it failed",
        (RunStatus.SUCCEEDED, 0),
        ended(PlaybookStatus.FAILED, FAILURE, rc=2),
        ("failed", 1, "check_failed", "the job succeeded, but the playbook failed after it: h1: Send a mail"),
    ),
    (
        "a host vanished after it",
        (RunStatus.SUCCEEDED, 0),
        ended(PlaybookStatus.UNREACHABLE, GONE, rc=4),
        ("failed", 1, "check_failed", "failed after it"),
    ),
    (
        "stopped",
        (RunStatus.STOPPED, 130),
        ended(PlaybookStatus.FAILED, FAILURE, rc=2),
        ("stopped", 130, "rank_failed", "the job's own words"),
    ),
]


@pytest.mark.parametrize(
    ("job_end", "outcome", "expected"), [case[1:] for case in WITH_JOB], ids=[case[0] for case in WITH_JOB]
)
def test_with_a_job(
    paths: RunPaths, job_end: tuple[RunStatus, int], outcome: PlaybookOutcome, expected: tuple[str, int, str, str]
) -> None:
    document = carried_out(paths, FakePlaybookRunner(outcome, work=job(paths, *job_end)))
    status, code, kind, words = expected
    assert (document["status"], document["exit_code"], document["exit_class"]) == (status, code, kind)
    assert words in document["verdict"]["message"]
    assert [rank["exit_code"] for rank in document["ranks"]] == [job_end[1]], "the ranks' own ends stay"


@pytest.mark.parametrize(
    ("job_end", "expected"),
    [
        (None, ("stopped", 130, "stopped before it started")),
        ((RunStatus.SUCCEEDED, 0), ("stopped", 130, "the job succeeded; the playbook's tasks after it were stopped")),
        ((RunStatus.FAILED, 7), ("failed", 7, "the job's own words")),
    ],
)
def test_a_stop_outside_of_the_job(
    paths: RunPaths,
    monkeypatch: pytest.MonkeyPatch,
    job_end: tuple[RunStatus, int] | None,
    expected: tuple[str, int, str],
) -> None:
    monkeypatch.setattr("ddp_play.run.playbook_stop.PATIENCE_S", 0)
    write_json(paths.stop_request(now=False), {"reason": "stopped with ddp-play stop"})

    class Canceled(FakePlaybookRunner):
        def run(self, request: PlaybookRequest, **rest: Any) -> PlaybookOutcome:
            outcome = super().run(request, **rest)
            assert rest["cancel"]()
            return outcome

    work = job(paths, *job_end) if job_end else None
    document = carried_out(paths, Canceled(ended(PlaybookStatus.CANCELED, rc=254), work=work))
    assert (document["status"], document["exit_code"], document["verdict"]["message"]) == expected


@pytest.mark.parametrize(("error", "code"), [(UsageError("no playbook", hint="x"), 64), (HostNotReady("h1"), 69)])
def test_a_runner_that_refuses(paths: RunPaths, error: Exception, code: int) -> None:
    def refuse(_request: PlaybookRequest) -> None:
        raise error

    assert carried_out(paths, FakePlaybookRunner(work=refuse))["exit_code"] == code


def test_the_playbook_gets_the_run_directory_in_its_environment(paths: RunPaths) -> None:
    runner = FakePlaybookRunner()
    carried_out(paths, runner)
    (request,) = runner.requests
    assert request.environment == {RUN_DIR_ENV: str(paths.root), FACTS_ENV: str(facts_cache(REQUEST))}
    assert request.options == REQUEST.options
    assert runner.private_dirs == [paths.ansible]


def test_passwords_are_written_nowhere(paths: RunPaths) -> None:
    runner = FakePlaybookRunner()
    carried_out(paths, runner)
    assert runner.passwords == [Passwords(become="hunter2")]
    assert "hunter2" not in "".join(path.read_text() for path in paths.root.rglob("*") if path.is_file())


def task(kind: str, *, action: str = "ansible.builtin.debug", role: str = "", **res: Any) -> dict[str, Any]:
    data = {"task": "Say hello", "host": "h1", "task_action": action, "role": role, "res": res}
    return {"event": kind, "event_data": data}


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (task("runner_on_ok"), ("Say hello", "ok")),
        (task("runner_on_ok", changed=True), ("Say hello", "changed")),
        (task("runner_on_failed", msg="no"), ("Say hello", "failed")),
        (task("runner_on_unreachable", msg="no"), ("Say hello", "unreachable")),
        (task("runner_on_skipped"), ("Say hello", "skipped")),
        (task("runner_on_start"), None),
        (task("runner_on_ok", action="ddp.play.run"), None),
        (task("runner_on_ok", action="ansible.builtin.validate_argument_spec", role="mine"), ("Say hello", "ok")),
        ({"event": "verbose"}, None),
        ({}, None),
    ],
)
def test_the_users_tasks_are_events(paths: RunPaths, event: dict[str, Any], shown: tuple[str, str] | None) -> None:
    carried_out(paths, FakePlaybookRunner(events=(event,)))
    rows = [(row["name"], row["status"]) for row in read_events(paths.events) if row["type"] == "task"]
    assert rows == ([shown] if shown else [])


def test_a_play_is_an_event(paths: RunPaths) -> None:
    carried_out(
        paths, FakePlaybookRunner(events=({"event": "playbook_on_play_start", "event_data": {"name": "Train"}},))
    )
    assert [row["name"] for row in read_events(paths.events) if row["type"] == "play"] == ["Train"]


def test_it_imports_neither_the_models_of_planning_nor_templates() -> None:
    code = "import sys, ddp_play.run.background_process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found = set(done.stdout.split())
    assert {"pydantic", "jinja2", "yaml", "ansible_runner", "ddp_play.planning.job"} & found == set()
