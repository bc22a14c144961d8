"""Events as sentences."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.run_lookup import load
from ddp_play.report.event_list import MOST_EVENTS, event_rows
from ddp_play.report.run_attempts import read_story

from .bundles import CREATED, ended_bundle, write_rows


def rows(*events: dict[str, Any]) -> dict[str, Any]:
    paths = ended_bundle()
    write_rows(paths.events, [{"time": CREATED + 3, **event} for event in events])
    return event_rows(read_story(load(paths)))


@pytest.mark.parametrize(
    ("event", "text", "is_plain"),
    [
        ({"type": "phase", "phase": "running"}, "running", True),
        ({"type": "warning", "message": "slow"}, "slow", False),
        (
            {"type": "rank", "rank": 3, "host": "h1", "state": "exited", "ok": False, "how": "exit code 3"},
            "rank 3 on h1: exited, exit code 3",
            False,
        ),
        ({"type": "host", "host": "h1", "state": "silent", "why": ""}, "host h1 does not answer; trying again", False),
        (
            {"type": "restart", "reason": "host h2 was lost", "attempt": 2, "retired": {"h2": "lost"}, "new": ["h3"]},
            "restarting as attempt 2: host h2 was lost; host h2 is retired: lost; replacement host: h3",
            False,
        ),
        ({"type": "waiting", "reason": "busy"}, "waiting for slots: busy", False),
        (
            {"type": "stop", "now": False, "grace_s": 30, "reason": "on request"},
            "stopping all ranks within 30 s: on request",
            False,
        ),
        (
            {"type": "task", "name": "t", "host": "h1", "status": "failed", "message": "no"},
            "task t | h1: failed: no",
            False,
        ),
        (
            {"type": "source_sent", "bytes": 3000, "archive_bytes": 1500, "hosts": 2, "duration_s": 0.25},
            "source of 1.5 kB sent to 2 hosts in 0.2 s: 3.0 kB in all",
            True,
        ),
        ({"type": "new kind", "size": 7}, "size 7", False),
        ({"type": "restart", "attempt": 2}, "attempt 2", False),
    ],
)
def test_sentences(event: dict[str, Any], text: str, is_plain: bool) -> None:
    assert rows(event)["rows"] == [{"at": 3.0, "type": event["type"], "text": text, "is_plain": is_plain}]


def test_of_too_many_events_those_of_ranks_that_are_well_go_first() -> None:
    good = {"type": "rank", "rank": 0, "host": "h1", "state": "running", "ok": False, "how": ""}
    found = rows(*[good] * 2000, {"type": "warning", "message": "slow"})
    assert [row["text"] for row in found["rows"]] == ["slow"]
    assert found["left_out"] == 2000


def test_of_too_many_others_the_first_and_the_last_stay() -> None:
    found = rows(*({"type": "warning", "message": str(number)} for number in range(1000)))
    assert len(found["rows"]) == MOST_EVENTS
    assert (found["rows"][0]["text"], found["rows"][-1]["text"]) == ("0", "999")
