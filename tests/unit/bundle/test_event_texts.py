"""Lines about events, and the states of ranks that events tell."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.event_texts import Level, event_lines, plan_lines, rank_failed, shown_state
from tests.unit.build import hosts, plan

EXITED = {"type": "rank", "rank": 3, "host": "h2", "state": "exited", "how": "exit code 3"}


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        ({"type": "of another version"}, []),
        ({}, []),
        ({"type": "phase", "phase": "starting"}, []),
        ({"type": "phase", "phase": "running"}, [("running", Level.DETAIL)]),
        ({**EXITED, "ok": False, "stopped": False}, [("h2:3: exit code 3", Level.FAILURE)]),
        ({**EXITED, "ok": False, "stopped": True}, []),
        ({**EXITED, "ok": True, "stopped": False}, []),
        (
            {"type": "host", "host": "h2", "state": "lost", "why": "no answer for 30 s"},
            [("host h2 is lost: no answer for 30 s", Level.NOTICE)],
        ),
        ({"type": "host", "host": "h2", "state": "back"}, [("host h2 is back", Level.NOTICE)]),
        (
            {"type": "restart", "attempt": 2, "reason": "h2 is lost", "retired": {"h2": "x"}, "new": ["h3"]},
            [
                ("restarting as attempt 2: h2 is lost", Level.WARNING),
                ("host h2 is retired: x", Level.NOTICE),
                ("replacement host: h3", Level.NOTICE),
            ],
        ),
        (
            {"type": "restart", "attempt": 3, "reason": "code 75", "error": "E: full", "retired": {}, "new": []},
            [("restarting as attempt 3: code 75: E: full", Level.WARNING)],
        ),
        (
            {"type": "replaced", "hosts": {"h2": "16 MiB free"}, "new": []},
            [("host h2 is not fit for this job: 16 MiB free", Level.NOTICE)],
        ),
        ({"type": "waiting", "reason": "slots"}, [("waiting for slots: slots", Level.NOTICE)]),
        (
            {"type": "waiting", "for_hosts": ["h1", "h2"], "at_most_s": 61},
            [("waiting until no rank can be alive on h1, h2: at most 1 min 1 s", Level.NOTICE)],
        ),
        (
            {"type": "stop", "reason": "asked", "now": False, "grace_s": 30.0},
            [("stopping all ranks within 30 s: asked", Level.NOTICE)],
        ),
        (
            {"type": "task", "name": "Copy", "host": "h1", "status": "failed", "message": "no space"},
            [("task Copy | h1: failed: no space", Level.FAILURE)],
        ),
        (
            {"type": "task", "name": "Copy", "host": "h1", "status": "ok", "message": "all good"},
            [("task Copy | h1: ok", Level.DETAIL)],
        ),
        ({"type": "collected", "bytes": 3.2e9}, [("collected so far: 3.2 GB of artifacts", Level.DETAIL)]),
        ({"type": "transport", "words": "IB on all"}, [("IB on all", Level.DETAIL)]),
        ({"type": "warning", "message": "full"}, [("warning: full", Level.WARNING)]),
    ],
)
def test_the_lines_of_an_event(event: dict[str, Any], lines: list[tuple[str, Level]]) -> None:
    assert event_lines(event) == lines


def test_a_plan_in_one_line_with_its_warnings() -> None:
    made = {**plan(*hosts(2)).to_json(), "warnings": ["slow"], "left_out": [["h3", "no answer"]]}
    assert plan_lines(made) == [
        ("2 ranks on 2 hosts, gloo over ethernet (10.0.0.0/16), env, head h1", Level.DETAIL),
        ("warning: slow", Level.NOTICE),
        ("left out h3: no answer", Level.NOTICE),
    ]


@pytest.mark.parametrize(
    ("state", "ok", "stopped", "text"),
    [
        ("running", False, False, "running"),
        ("exited", True, False, "exited"),
        ("exited", False, False, "failed"),
        ("exited", False, True, "stopped"),
        ("lost", False, False, "failed"),
    ],
)
def test_the_state_of_a_rank(state: str, ok: bool, stopped: bool, text: str) -> None:
    event = {**EXITED, "state": state, "ok": ok, "stopped": stopped}
    assert shown_state(event) == text
    assert rank_failed(event) is (text == "failed")
