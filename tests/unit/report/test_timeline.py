"""Phases of a run, and when ranks ran on each host."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.bundle.run_lookup import load
from ddp_play.report.run_attempts import RunStory, read_story
from ddp_play.report.timeline import MOST_HOSTS, phase_seconds, phases, rank_state, timeline

from .bundles import CREATED, ended_bundle, rank_row, write_rows
from .test_run_attempts import restarted


def story(*events: dict[str, Any], **document: Any) -> RunStory:
    paths = ended_bundle(**document)
    if events:
        write_rows(paths.events, [{"time": CREATED + at, **event} for at, event in enumerate(events)])
    return read_story(load(paths))


def test_phases_follow_each_other_without_gaps() -> None:
    assert [(row["phase"], row["from"], row["to"]) for row in phases(story())] == [
        ("starting", 0.0, 1.0),
        ("preparing", 1.0, 2.0),
        ("running", 2.0, 59.0),
        ("collecting", 59.0, 60.0),
    ]


def test_waiting_and_restarts() -> None:
    found = story(
        {"type": "play", "name": "x"}, {"type": "waiting", "reason": "busy"}, {"type": "phase", "phase": "running"},
        {"type": "restart", "attempt": 2}, {"type": "phase", "phase": "running"}, {"type": "ended"},
    )  # fmt: skip
    rows = phases(found)
    assert [(row["phase"], row["attempt"]) for row in rows] == [
        ("starting", 1), ("waiting", 1), ("running", 1), ("preparing", 2), ("running", 2),
    ]  # fmt: skip
    assert phase_seconds(rows) == {"starting": 1.0, "waiting": 1.0, "running": 2.0, "preparing": 1.0}


def test_a_run_without_events_has_one_phase() -> None:
    paths = ended_bundle()
    paths.events.unlink()
    assert [row["phase"] for row in phases(read_story(load(paths)))] == ["starting"]


def test_each_host_has_a_bar_for_each_attempt_with_its_worst_rank() -> None:
    hosts = timeline(read_story(load(restarted())))["hosts"]
    assert [(row["host"], [(bar["attempt"], bar["state"], bar["text"]) for bar in row["bars"]]) for row in hosts] == [
        ("h1", [(1, "ok", "1 rank ok"), (2, "ok", "1 rank ok")]),
        ("h2", [(1, "lost", "1 rank lost"), (2, "ok", "1 rank ok")]),
    ]
    assert hosts[1]["bars"][0]["to"] == 12.0, "a lost rank was there until the attempt ended"


def test_what_was_said_of_a_host_is_a_mark() -> None:
    found = timeline(story({"type": "host", "host": "h2", "state": "lost", "why": "no answer"}))
    assert found["hosts"][1]["marks"] == [{"at": 0.0, "text": "is lost: no answer"}]


def test_of_very_many_hosts_those_with_failures_are_shown() -> None:
    rows = [rank_row(rank, f"h{rank + 1}", exit_code=3 if rank == 99 else 0) for rank in range(100)]
    found = timeline(story(num_hosts=100, ranks=rows))
    assert len(found["hosts"]) == MOST_HOSTS
    assert found["hosts_left_out"] == 36
    assert found["hosts"][-1]["host"] == "h100"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"state": "exited", "exit_code": 0}, "ok"),
        ({"state": "exited", "exit_code": 3}, "failed"),
        ({"state": "exited", "exit_code": 143, "stopped": True}, "stopped"),
        ({"state": "lost"}, "lost"),
        ({"state": "running"}, "running"),
        ({"state": "created"}, "created"),
        ({"state": "of another version"}, "failed"),
    ],
)
def test_state_of_a_rank(fields: dict[str, Any], state: str) -> None:
    assert rank_state(RankOutcome(0, "h1", **fields)) == state
