"""Leftovers on hosts: the query, what may be removed, and removal of exactly the listed things."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.bundle.paths import write_json
from ddp_play.errors import HostNotReady
from ddp_play.run.garbage_collection import Leftovers, find_leftovers, remove_leftovers
from ddp_play.testing import FakePlaybookRunner

REQUEST = PlaybookRequest("/demo.yml", ("/inv",), "/")
DEAD: dict[str, Any] = {"run": "old-1", "path": "/state/runs/old-1/1.h1", "guard_alive": False}
ALIVE: dict[str, Any] = {"run": "new-1", "path": "/state/runs/new-1/1.h1", "guard_alive": True}


def answers(host: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"event": "runner_on_ok", "event_data": {"host": host, "res": {"answer": answer}}}


def fails(host: str, words: str) -> dict[str, Any]:
    return {"event": "runner_on_unreachable", "event_data": {"host": host, "res": {"msg": words}}}


def test_leftovers_and_problems_by_host() -> None:
    runner = FakePlaybookRunner(
        events=(
            answers("h1", {"runs": [DEAD, ALIVE], "containers": [{"id": "c1", "run": "gone-1"}]}),
            fails("h2", "no route"),
            {"event": "x"},
        )
    )
    found = find_leftovers(REQUEST, Passwords(), runner)
    assert [row["run"] for row in found.runs] == ["old-1", "new-1"]
    assert found.removable == [{**DEAD, "inventory_host": "h1"}], "a living guard's run is never touched"
    assert found.containers == [{"id": "c1", "run": "gone-1", "inventory_host": "h1"}]
    assert found.problems == {"h2": "no route"}
    assert not found.empty
    assert runner.requests[0].environment["DDP_PLAY_SWEEP_VERB"] == "runs"


def test_a_host_without_leftovers() -> None:
    found = find_leftovers(
        REQUEST, Passwords(), FakePlaybookRunner(events=(answers("h1", {"runs": [], "containers": []}),))
    )
    assert found.empty


def test_no_answer_at_all_is_an_error() -> None:
    gone = PlaybookOutcome(PlaybookStatus.UNREACHABLE, 4, (TaskFailure("h1", "t", "no route", True),), "")
    with pytest.raises(HostNotReady, match="no route"):
        find_leftovers(REQUEST, Passwords(), FakePlaybookRunner(gone))


def test_exactly_what_was_listed_is_removed() -> None:
    orders: list[Any] = []

    def read(request: PlaybookRequest) -> None:
        orders.append(json.loads(Path(request.environment["DDP_PLAY_SWEEP_ORDERS"]).read_text()))

    runner = FakePlaybookRunner(events=(answers("h1", {"left": ["x: busy"]}), fails("h2", "no route")), work=read)
    found = Leftovers(
        runs=[{**DEAD, "inventory_host": "h1"}, {**ALIVE, "inventory_host": "h1"}],
        containers=[{"id": "c1", "run": "gone-1", "inventory_host": "h2"}],
    )
    assert remove_leftovers(REQUEST, Passwords(), runner, found) == ["h1: x: busy", "h2: no route"]
    assert orders == [
        {
            "h1": {"paths": [DEAD["path"]], "containers": [], "living_too": False},
            "h2": {"paths": [], "containers": ["c1"], "living_too": False},
        }
    ]


SHARES = "of gpu07, which shares this directory: gc there removes it"
MINE: dict[str, Any] = {**DEAD, "owner": "kim", "attended": False}


@pytest.mark.parametrize(
    ("row", "elsewhere", "asked", "why"),
    [
        (MINE, {}, {"me": "kim"}, ""),
        (MINE, {}, {"me": ""}, ""),
        (MINE, {}, {"me": "pat"}, "of kim"),
        ({**MINE, "owner": ""}, {}, {"me": "pat"}, ""),
        ({**MINE, "guard_alive": True}, {}, {"me": "kim"}, "running"),
        ({**MINE, "attended": True}, {}, {"me": "kim"}, "running"),
        ({**MINE, "elsewhere": "gpu07"}, {}, {"me": "kim"}, SHARES),
        ({**MINE, "elsewhere": "gpu07"}, {}, {"me": "kim", "run": "old-1"}, SHARES),
        (MINE, {**MINE, "guard_alive": True}, {"me": "kim"}, "running"),  # active on another host
        ({**MINE, "guard_alive": True}, {}, {"me": "kim", "run": "old-1"}, ""),
        ({**MINE, "guard_alive": True}, {}, {"me": "pat", "run": "old-1"}, "of kim"),
        ({**MINE, "guard_alive": True}, {}, {"me": "", "run": "old-1"}, ""),
        (MINE, {}, {"me": "kim", "run": "new-1"}, "another run"),
        ({**MINE, "token": "a"}, {}, {"me": "kim", "run": "old-1", "token": "a"}, ""),
        ({**MINE, "token": "a"}, {}, {"me": "kim", "run": "old-1", "token": "b"}, "another run of that name"),
        ({**MINE, "token": "a"}, {**MINE, "token": "b", "guard_alive": True}, {"me": "kim"}, ""),
        (MINE, {}, {"me": "kim", "run": "old-1", "token": ""}, ""),
        ({**MINE, "token": "a"}, {}, {"me": "kim", "run": "old-1", "token": ""}, "another run of that name"),
    ],
)
def test_what_may_be_removed(row: dict[str, Any], elsewhere: dict[str, Any], asked: dict[str, Any], why: str) -> None:
    found = Leftovers(runs=[row, *([elsewhere] if elsewhere else [])], **asked)
    assert found.why_kept(row) == why
    assert (row in found.removable) == (why == "")


def test_a_run_without_a_token_is_not_confused_with_another_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This controller's run has no token and left nothing on the hosts; another controller's is active there."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    write_json(tmp_path / "runs" / "old-1" / "run.json", {"id": "old-1", "status": "failed"})
    other = {**MINE, "token": "0123456789abcdef", "guard_alive": True}
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": [other], "containers": []}),))
    assert find_leftovers(REQUEST, Passwords(), runner, me="kim", run="old-1").empty
