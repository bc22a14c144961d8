"""Leftovers on hosts: the query, what may be removed, and removal of exactly the listed things."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.bundle.paths import write_json
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.run.garbage_collection import Leftovers, find_leftovers, remove_leftovers
from ddp_play.testing import FakePlaybookRunner

REQUEST = PlaybookRequest("/demo.yml", ("/inv",), "/")
ROW: dict[str, Any] = {"attempt": 1, "phase": "ended", "owner": ""}
DEAD: dict[str, Any] = {**ROW, "run": "old-1", "path": "/state/runs/old-1/1.h1", "guard_alive": False}
CONTAINER: dict[str, Any] = {"id": "c1", "run": "gone-1", "owner": "", "attempt": "1", "state": "exited"}
ALIVE: dict[str, Any] = {**ROW, "run": "new-1", "path": "/state/runs/new-1/1.h1", "guard_alive": True}


def answers(host: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"event": "runner_on_ok", "event_data": {"host": host, "res": {"answer": answer}}}


def fails(host: str, words: str) -> dict[str, Any]:
    return {"event": "runner_on_unreachable", "event_data": {"host": host, "res": {"msg": words}}}


def orders_of(request: PlaybookRequest) -> Any:
    """What the hosts are told to remove."""
    return json.loads(Path(request.environment["DDP_PLAY_SWEEP_ORDERS"]).read_text())


def test_leftovers_and_problems_by_host() -> None:
    runner = FakePlaybookRunner(
        events=(
            fails("h2", "no route"),
            answers("h1", {"runs": [DEAD, ALIVE], "containers": [{**CONTAINER, "run": "gone-1"}]}),
            {"event": "x"},
        )
    )
    found = find_leftovers(REQUEST, Passwords(), runner)
    assert [row["run"] for row in found.runs] == ["old-1", "new-1"]
    assert found.removable == [{**DEAD, "inventory_host": "h1"}], "a living guard's run is never touched"
    assert found.containers == [{**CONTAINER, "inventory_host": "h1"}]
    assert found.problems == {"h2": "no route"}
    assert not found.empty
    assert runner.requests[0].environment["DDP_PLAY_SWEEP_VERB"] == "runs"


def test_a_host_without_leftovers() -> None:
    found = find_leftovers(
        REQUEST, Passwords(), FakePlaybookRunner(events=(answers("h1", {"runs": [], "containers": []}),))
    )
    assert found.empty


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"runs": [{"run": "old-1"}], "containers": []}, "no field attempt in runs"),
        ({"runs": {}, "containers": []}, "{} in place of a list in runs"),
        ({"runs": [{**DEAD, "guard_alive": "yes"}], "containers": []}, "the value 'yes' in guard_alive in runs"),
        ({"runs": []}, "no field containers"),
        ([], "[] in place of an object"),
    ],
)
def test_a_host_that_answers_with_something_else_is_named_and_the_others_count(answer: Any, problem: str) -> None:
    """It ended the command for all hosts."""
    events = (answers("h1", answer), answers("h2", {"runs": [DEAD], "containers": []}))
    found = find_leftovers(REQUEST, Passwords(), FakePlaybookRunner(events=events))
    assert found.problems == {"h1": f"it sent an answer to runs with {problem}; check which program runs on the host"}
    assert [row["inventory_host"] for row in found.runs] == ["h2"]


def test_no_answer_at_all_is_an_error() -> None:
    gone = PlaybookOutcome(PlaybookStatus.UNREACHABLE, 4, (TaskFailure("h1", "t", "no route", True),), "")
    with pytest.raises(HostNotReady, match="no route"):
        find_leftovers(REQUEST, Passwords(), FakePlaybookRunner(gone))


def test_exactly_what_was_listed_is_removed() -> None:
    orders: list[Any] = []
    events = (answers("h1", {"left": ["x: busy"]}), fails("h2", "no route"))
    runner = FakePlaybookRunner(events=events, work=lambda request: orders.append(orders_of(request)))
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


def test_what_is_kept_is_listed_with_the_reason() -> None:
    """Of the run that was named, or of all; other runs are not worth a line when one was named."""
    rows = [MINE, {**MINE, "run": "new-1", "guard_alive": True}]
    containers = [{"id": "c1", "run": "old-1", "owner": "pat"}]
    found = Leftovers(runs=rows, containers=containers, me="kim")
    assert found.others == [(rows[1], "running"), (containers[0], "of pat")]
    assert found.keys == ("old-1",)
    named = Leftovers(runs=rows, containers=containers, me="kim", run="old-1")
    assert named.others == [(containers[0], "of pat")]


@pytest.mark.parametrize(
    ("runs", "containers", "empty"),
    [([], [], True), ([DEAD], [], False), ([], [{"id": "c1", "run": "gone-1"}], False), ([ALIVE], [], True)],
)
def test_one_kind_of_leftovers_is_enough(
    runs: list[dict[str, Any]], containers: list[dict[str, Any]], empty: bool
) -> None:
    assert Leftovers(runs=runs, containers=containers).empty is empty


def test_a_name_that_two_runs_have_removes_nothing() -> None:
    """Another user's run may have the name."""
    two = [{**MINE, "token": token} for token in ("a" * 16, "b" * 16)]
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": two, "containers": []}),))
    with pytest.raises(UsageError, match="several runs are called old-1") as caught:
        find_leftovers(REQUEST, Passwords(), runner, run="old-1")
    assert caught.value.hint == f"name one of them: --run old-1.{'a' * 16} or old-1.{'b' * 16}"
    found = find_leftovers(REQUEST, Passwords(), runner, run=f"old-1.{'a' * 16}")
    assert [row["token"] for row in found.removable] == ["a" * 16]
    assert len(find_leftovers(REQUEST, Passwords(), runner).removable) == 2, "no name: all of them"


def test_the_run_of_this_controller_is_meant_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    write_json(tmp_path / "runs" / "old-1" / "run.json", {"id": "old-1", "token": "b" * 16})
    two = [{**MINE, "token": token} for token in ("a" * 16, "b" * 16)]
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": two, "containers": []}),))
    found = find_leftovers(REQUEST, Passwords(), runner, run="old-1")
    assert [row["token"] for row in found.removable] == ["b" * 16]


def test_results_of_other_tasks_are_no_answers() -> None:
    """A failure is one, also without words."""
    other_task = {"event": "runner_on_ok", "event_data": {"host": "h1", "res": {"changed": False}}}
    failed = {"event": "runner_on_failed", "event_data": {"host": "h2", "res": {"answer": {"runs": []}}}}
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": [DEAD], "containers": []}), other_task, failed))
    found = find_leftovers(REQUEST, Passwords(), runner)
    assert [row["run"] for row in found.runs] == ["old-1"]
    assert found.problems == {"h2": "failed"}


def test_a_run_that_is_named_goes_with_its_guard() -> None:
    orders: list[Any] = []
    events = (answers("h1", {"left": []}),)
    runner = FakePlaybookRunner(events=events, work=lambda request: orders.append(orders_of(request)))
    found = Leftovers(runs=[{**ALIVE, "inventory_host": "h1"}], run="new-1")
    assert remove_leftovers(REQUEST, Passwords(), runner, found) == []
    assert orders == [{"h1": {"paths": [ALIVE["path"]], "containers": [], "living_too": True}}]
    assert runner.requests[0].environment["DDP_PLAY_SWEEP_VERB"] == "clean"


@pytest.mark.parametrize("options", [{}, {"run": "old-1"}, {"run": "old-1", "token": ""}, {"me": ""}])
def test_a_run_of_an_unknown_version_is_kept_on_all_hosts(options: dict[str, Any]) -> None:
    unknown = {**DEAD, "unknown": "written by ddp-play 9.9", "inventory_host": "h1"}
    found = Leftovers(
        runs=[unknown, {**DEAD, "inventory_host": "h2"}],
        containers=[{"id": "c1", "run": "old-1", "inventory_host": "h2"}],
        **options,
    )
    assert found.empty, "also named it stays: its guard may be one that this version does not find"
    assert found.why_kept(unknown) == "written by ddp-play 9.9"


UNCOLLECTED: dict[str, Any] = {**MINE, "token": "a" * 16, "uncollected": True, "controller": "login2"}
ATTACH_THERE = (
    "its files are perhaps not collected: ddp-play attach old-1 on login2 collects them, "
    f"ddp-play gc -i INVENTORY --run old-1.{'a' * 16} --all-users --yes removes them for good"
)
ATTACH_HERE = ATTACH_THERE.replace(" on login2", "")


@pytest.mark.parametrize(
    ("collected", "change", "options", "why"),
    [
        ({}, {}, {}, ATTACH_THERE),
        ({}, {"controller": ""}, {}, ATTACH_THERE.replace("login2", "its controller")),
        ({}, {}, {"me": "kim"}, ATTACH_THERE.replace(" --all-users", "")),
        ({}, {}, {"me": "pat"}, "of kim"),
        ({}, {"guard_alive": True}, {}, "running"),
        ({}, {"uncollected": False}, {}, ""),
        ({}, {}, {"run": "old-1"}, ""),
        ({f"old-1.{'a' * 16}": False}, {}, {}, ATTACH_HERE),
        ({f"old-1.{'a' * 16}": True}, {}, {}, ""),
        ({f"old-1.{'b' * 16}": True}, {}, {}, ATTACH_THERE),  # another run of that name
    ],
)
def test_a_run_whose_files_nobody_has_stays_unless_it_is_named(
    collected: dict[str, bool], change: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    """On all hosts, with its containers: its head removes the directory that all attempts share."""
    row = {**UNCOLLECTED, **change}
    head = {**UNCOLLECTED, "uncollected": False, "inventory_host": "h2"}
    container = {"id": "c1", "run": "old-1", "token": "a" * 16, "owner": "kim"}
    other = {**MINE, "run": "old-2"}
    found = Leftovers(runs=[row, head, other], containers=[container], collected=collected, **options)
    assert [found.why_kept(kept) for kept in (row, head, container)] == [why] * 3
    assert (other in found.removable) == (not options.get("run") and options.get("me") != "pat")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"status": "running"}, ATTACH_HERE),
        ({"status": "failed", "exit_class": "disk_full"}, ATTACH_HERE),
        ({"status": "failed", "exit_class": "host_not_ready"}, ""),
        ({"status": "failed", "token": "b" * 16}, ATTACH_THERE),
        ({}, ATTACH_THERE),
    ],
)
def test_this_controller_knows_whether_attach_would_collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], why: str
) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    if document:
        write_json(tmp_path / "runs" / "old-1" / "run.json", {"id": "old-1", "token": "a" * 16, **document})
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": [UNCOLLECTED], "containers": []}),))
    (row,) = (found := find_leftovers(REQUEST, Passwords(), runner)).runs
    assert found.why_kept(row) == why


@pytest.mark.parametrize(("change", "kept"), [({}, True), ({"attempt": 2}, False), ({"host": "h2"}, False)])
def test_files_of_a_host_that_was_lost_stay_after_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], kept: bool
) -> None:
    """Those of other attempts and hosts are collected. Containers have no files, and may go."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    lost = [{"attempt": 1, "host": "h1"}]
    document = {"id": "old-1", "token": "a" * 16, "status": "failed", "exit_class": "host_lost", "uncollected": lost}
    write_json(tmp_path / "runs" / "old-1" / "run.json", document)
    row = {**UNCOLLECTED, "attempt": 1, "host": "h1", **change}
    container = {"id": "c1", "run": "old-1", "token": "a" * 16, "owner": "kim", "attempt": "1", "state": "exited"}
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": [row], "containers": [container]}),))
    found = find_leftovers(REQUEST, Passwords(), runner, me="kim")
    why = ATTACH_HERE.replace("are perhaps not collected", "were not collected when the run ended")
    assert found.why_kept(found.runs[0]) == (why.replace(" --all-users", "") if kept else "")
    assert found.why_kept(found.containers[0]) == ""


@pytest.mark.parametrize("name", ["../../etc", "a..b", "Upper"])
def test_no_bundle_is_read_by_a_name_that_is_none(name: str) -> None:
    runner = FakePlaybookRunner(events=(answers("h1", {"runs": [{**UNCOLLECTED, "run": name}], "containers": []}),))
    assert find_leftovers(REQUEST, Passwords(), runner).collected == {}
