"""Cases in which a rank crashed, and the results of several runs in one."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.measuring.crashed_cases import (
    Crash,
    crash_in,
    documented_cases,
    merged_result,
    rows_before,
    signal_of,
    worst_row,
)
from ddp_play.measuring.measurement_findings import SEVERITY, collective_table
from trainer import collective_check
from trainer.collective_cases import CASES as CASES_OF_TRAINER

CASES = {"broadcast": True, "all_reduce": True, "barrier": False, "objects": None}


def row(name: str, status: str = "works", seconds: float = 0.1, detail: str = "") -> dict[str, Any]:
    return {"name": name, "status": status, "detail": detail, "seconds": seconds, "documented": True}


def running(name: str, *rows: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The result file of a rank in which a case runs."""
    cases = [{"name": case, "documented": documented} for case, documented in CASES.items()]
    return {"status": "running", "running": name, "cases": cases, "this_rank": list(rows), "torch": "2.11", **fields}


def document(rank: int = 0, kind: str = "rank_failed", **ends: Any) -> dict[str, Any]:
    """run.json of two ranks of which this one failed first; the other one saw a closed connection."""
    other = {"rank": 1 - rank, "host": "h9", "exit_code": 1, "signal": None, "stopped": False, "oom": False}
    first = {"rank": rank, "host": "h1", "exit_code": 139, "signal": 11, "stopped": False, "oom": False, **ends}
    return {"verdict": {"kind": kind, "rank": rank}, "ranks": [other, first]}


CRASH = Crash("all_reduce", 0, "rank 0 on h1 ended by signal 11 (SIGSEGV)", True, ("barrier", "objects"))


def test_the_first_failed_rank_names_the_case() -> None:
    results = {0: running("all_reduce"), 1: running("barrier")}
    assert crash_in(document(), results) == CRASH
    second = crash_in(document(rank=1), results)
    assert second is not None
    assert (second.case, second.rank, second.rest) == ("barrier", 1, ("objects",))
    killed = crash_in(document(exit_code=137, signal=9, oom=True), results)
    assert killed is not None
    assert killed.detail == "rank 0 on h1 ended by signal 9 (SIGKILL), out of memory"


@pytest.mark.parametrize(
    ("run", "result"),
    [
        ({}, running("all_reduce")),  # no verdict: it was left
        (document(kind="stopped"), running("all_reduce")),
        (document(kind="host_lost"), running("all_reduce")),
        (document(exit_code=1, signal=None), running("all_reduce")),
        (document(stopped=True), running("all_reduce")),
        (document(), {}),  # its file was not collected
        (document(), running("")),  # all cases had run
        (document(), running("all_reduce", status="finished")),
        (document(), running("{{ 1 + 1 }}", cases=[{"name": "{{ 1 + 1 }}"}])),
        (document(), running("all_reduce", cases="all_reduce")),
        (document(), {"sweeps": []}),  # of bench
    ],
)
def test_a_run_that_ended_in_another_way(run: dict[str, Any], result: dict[str, Any]) -> None:
    assert crash_in(run, {0: result}) is None


@pytest.mark.parametrize(
    ("code", "number", "stopped", "expected"),
    [
        (139, 11, False, 11),  # a process
        (139, None, False, 11),  # a container, or a shell around the rank
        (134, 6, False, 6),
        (137, 9, True, 0),  # ddp-play ended it
        (143, 15, False, 0),  # somebody asked it to end
        (130, None, False, 0),
        (0, None, False, 0),
        (1, None, False, 0),
        (128, None, False, 0),
        (255, None, False, 0),
        (None, None, False, 0),
    ],
)
def test_signals(code: int | None, number: int | None, stopped: bool, expected: int) -> None:
    assert signal_of({"exit_code": code, "signal": number, "stopped": stopped}) == expected


@pytest.mark.parametrize(
    ("case", "rest", "follows"),
    [
        ("barrier", ("objects",), True),
        ("objects", (), True),
        ("all_reduce", ("barrier", "objects"), False),  # the same again
        ("broadcast", ("all_reduce", "barrier", "objects"), False),
        ("barrier", ("barrier", "objects"), False),
    ],
)
def test_progress(case: str, rest: tuple[str, ...], follows: bool) -> None:
    assert Crash(case, 0, "", True, rest).follows(CRASH) is follows


@pytest.mark.parametrize("name", ["{{ now() }}", "--after", "{python}", "", "a" * 65, "a\n", "\xe4", 7, None])
def test_names_of_cases_are_words(name: Any) -> None:
    """They become arguments of a command, in variables of Ansible."""
    assert documented_cases({"cases": [{"name": name}, 3, {"name": "send/recv", "documented": False}]}) == {
        "send/recv": False
    }


def test_the_trainers_names_and_statuses_are_known() -> None:
    names = [case.name for case in CASES_OF_TRAINER]
    assert list(documented_cases({"cases": [{"name": name} for name in names]})) == names
    assert SEVERITY[:-1] == collective_check.SEVERITY


def test_the_worst_rank_counts_before_a_crash() -> None:
    """What ranks say about the case that crashed and later ones came from the crash."""
    results: dict[int, dict[str, Any]] = {
        0: running("barrier", row("broadcast", "hung"), row("all_reduce", "refused"), row("barrier", "refused")),
        1: running("all_reduce", row("broadcast")),
        2: {},
        3: {"this_rank": ["x", {"status": "works"}, {"name": "broadcast", "status": "odd"}]},
    }
    assert rows_before(CRASH, results) == [row("broadcast", "hung")]
    assert rows_before(CRASH, {}) == []


@pytest.mark.parametrize(
    "rows",
    [
        [row("x")],
        [row("x", seconds=0.2), row("x", seconds=0.9)],
        [row("x", "refused", 0.9), row("x", "wrong", 0.1), row("x", "not run")],
        [row("x", "hung"), row("x", "wrong", 9.0)],
    ],
)
def test_the_worst_row_is_that_of_the_trainer(rows: list[dict[str, Any]]) -> None:
    outcomes = tuple(collective_check.Outcome(**one) for one in rows)
    assert worst_row(rows) == vars(collective_check.worst_outcome(outcomes))


def test_rows_of_several_runs_in_the_order_of_the_cases() -> None:
    last = [row("objects"), row("barrier", "hung")]
    merged = merged_result(running("all_reduce", world_size=2), [[row("broadcast"), CRASH.to_row()], last])
    assert [(one["name"], one["status"]) for one in merged["collectives"]] == [
        ("broadcast", "works"),
        ("all_reduce", "crashed"),
        ("barrier", "hung"),
        ("objects", "works"),
    ]
    assert (merged["status"], merged["torch"], merged["world_size"]) == ("finished", "2.11", 2)


def test_cases_that_no_run_tried() -> None:
    merged = merged_result(running("all_reduce"), [[CRASH.to_row()], [CRASH.to_row() | {"status": "works"}]])
    assert [(one["name"], one["status"], one["documented"]) for one in merged["collectives"]] == [
        ("broadcast", "not run", True),
        ("all_reduce", "crashed", True),
        ("barrier", "not run", False),
        ("objects", "not run", None),
    ]
    assert merged["status"] == "incomplete"


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "broadcast", "status": "works"},
        {"name": "broadcast", "status": "works", "seconds": "long", "documented": "yes", "detail": ["x"]},
    ],
)
def test_rows_of_another_form_do_not_cost_the_table(odd: dict[str, Any]) -> None:
    results = {0: running("all_reduce", row("broadcast")), 1: running("all_reduce", odd)}
    rows = rows_before(CRASH, results)
    assert [(found["name"], found["status"]) for found in rows] == [("broadcast", "works")]
    merged = merged_result(results[1], [rows_before(CRASH, {1: results[1]})])
    table = collective_table({"gloo cpu": merged})
    assert table["broadcast"]["gloo cpu"].detail == ""
    assert table["all_reduce"]["gloo cpu"].status == "not run"
