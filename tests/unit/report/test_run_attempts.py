"""Attempts of a run from its bundle, complete or not."""

from __future__ import annotations

import json
import shutil

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.bundle.run_lookup import load
from ddp_play.report.run_attempts import read_story

from .bundles import CREATED, ended_bundle, rank_row, write_rows


def without_end(paths: RunPaths) -> RunPaths:
    """The bundle as a controller that was killed leaves it."""
    document = json.loads(paths.run.read_text())
    for name in ("ended", "finished", "ranks", "verdict", "exit_code", "network"):
        document.pop(name)
    write_json(paths.run, {**document, "status": "running"})
    return paths


def restarted() -> RunPaths:
    """A run whose first attempt lost h2, ten seconds after its start."""
    paths = ended_bundle()
    document = json.loads(paths.run.read_text())
    first = paths.attempt(1)
    first.create()
    shutil.copy(paths.plan, first.plan)
    lost = [rank_row(0, "h1", 13), rank_row(1, "h2", state="lost", exit_code=None, ended=None)]
    verdict = {"kind": "host_lost", "message": "host h2 was lost", "rank": 1, "host": "h2"}
    write_json(first.outcome, {"status": "failed", "verdict": verdict, "ranks": lost})
    row = {
        "attempt": 1, "hosts": ["h1", "h2"], "started": CREATED + 2, "ended": CREATED + 12, "verdict": "host_lost",
        "message": "host h2 was lost", "fault": "h2", "retired": {"h2": "lost"}, "reason": "host h2 was lost",
    }  # fmt: skip
    write_json(paths.run, {**document, "attempt": 2, "started": CREATED + 20, "attempts": [row]})
    return paths


def test_a_run_that_ended() -> None:
    story = read_story(load(ended_bundle()))
    (attempt,) = story.attempts
    assert (attempt.began, attempt.ended, story.length) == (2.0, 60.0, 60.0)
    assert attempt.hosts == {"h1": range(1), "h2": range(1, 2)}
    assert [row.ok for row in attempt.outcomes] == [True, True]
    assert attempt.failed == ()


def test_an_attempt_before_a_restart_has_files_ranks_and_times_of_its_own() -> None:
    paths = restarted()
    first, second = read_story(load(paths)).attempts
    assert (first.began, first.ended, second.began, second.ended) == (2.0, 12.0, 20.0, 60.0)
    assert first.paths.root == paths.root / "attempts" / "1"
    assert first.failed == (1,)
    assert second.failed == ()


def test_of_a_killed_controller_events_tell_what_ranks_did() -> None:
    story = read_story(load(without_end(ended_bundle(length=7.0))))
    assert [(row.rank, row.state, row.started) for row in story.attempts[0].outcomes] == [
        (0, "running", CREATED + 2),
        (1, "running", CREATED + 2),
    ]
    assert story.length >= 7.0


def test_ranks_that_ended_before_the_controller_was_killed() -> None:
    paths = without_end(ended_bundle())
    ended = {
        "time": CREATED + 9,
        "type": "rank",
        "rank": 1,
        "host": "h2",
        "state": "exited",
        "ok": False,
        "how": "exit code 3",
    }
    unknown = {"time": CREATED + 9, "type": "rank", "rank": 77, "state": "exited"}
    write_rows(paths.events, [ended, unknown])
    rows = read_story(load(paths)).attempts[0].outcomes
    assert [(row.state, row.ended, row.detail) for row in rows] == [
        ("created", None, ""),
        ("exited", CREATED + 9, "exit code 3"),
    ]


@pytest.mark.parametrize("text", ["", "{}", '{"kinds": 7}', '{"kinds": [], "hosts": [{"name": "h1"}]}', "[1]"])
def test_a_plan_that_cannot_be_read_has_no_hosts(text: str) -> None:
    paths = ended_bundle()
    paths.plan.write_text(text)
    assert read_story(load(paths)).attempts[0].hosts == {}


def test_events_that_are_none_are_left_out() -> None:
    paths = ended_bundle()
    paths.events.write_text(
        '[1]\n{"time": "x", "type": "rank"}\n{"time": 1}\n{"time": 1900000003, "type": 5}\nnonsense\n'
    )
    assert read_story(load(paths)).events == ()
