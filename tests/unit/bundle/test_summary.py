"""Summary of a run and its table of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.bundle.summary import attempt_lines, duration, headline, number, rank_rows, summary

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (7.4, "7 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (172799, "47 h 59 min"),
        (360000, "4 d 4 h"),
        (-360000, "-4 d 4 h"),
        (-7, "-7 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0.5, "0.5000"),
        (0.98333, "0.9833"),
        (12.3456, "12.35"),
        (9999.4, "9999"),
        (123456.7, "123457"),
        (4.7e10, "4.7e+10"),
        (0.0, "0.0000"),
        (0.001234, "0.0012"),
        (1e-7, "1e-07"),
        (-0.00025, "-0.00025"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (-2.5, "-2.5"),
        ("x", "x"),
    ],
)
def test_numbers(value: Any, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({}, ""),
        ({"loss": 0.0526, "accuracy": 0.98333, "other": 1}, "accuracy 0.9833  loss 0.0526"),
        ({"accuracy": "n/a", "steps": 40}, "steps 40"),
    ],
)
def test_headline(result: dict[str, Any], text: str) -> None:
    assert headline(result) == text


FAILED: dict[str, Any] = {
    "status": "failed",
    "created": 100.0,
    "ended": 105.0,
    "verdict": {
        "kind": "rank_failed",
        "message": "rank 1 on h1 failed first: exit code 7",
        "rank": 1,
        "host": "h1",
        "tail": ["line 1", "line 2"],
        "last_frame": "train.py:88 in step",
        "hint": "look there",
    },
    "missing": [{"host": "h2", "path": "big.pt", "why": "too large"}, {"host": "", "path": "all", "why": "gone"}],
    "left_behind": {"h3": ["container x"]},
}


def test_a_failure(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "calm-otter-1")
    assert summary(paths, FAILED) == [
        "run calm-otter-1 failed after 5 s",
        "  rank 1 on h1 failed first: exit code 7",
        "  at train.py:88 in step",
        "  -> look there",
        "  last lines of h1:1:",
        "    | line 1",
        "    | line 2",
        f"  whole log: {paths.log(1)}",
        "  not collected from h2: big.pt (too large)",
        "  not collected from the hosts: all (gone)",
        "  still on h3: container x",
        f"  bundle: {paths.root}",
    ]


def test_a_success_shows_its_result(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "calm-otter-1")
    write_json(paths.result(0), {"accuracy": 0.98})
    document = {"status": "succeeded", "verdict": {"message": "all 2 ranks exited 0", "tail": ["x"]}, "output": "/out"}
    assert summary(paths, document) == [
        "run calm-otter-1 succeeded",
        "  all 2 ranks exited 0",
        "  accuracy 0.9800",
        "  bundle: /out",
    ]


def test_a_run_without_output(tmp_path: Path) -> None:
    assert summary(RunPaths(tmp_path / "r1"), {})[0] == "run r1 starting"


def test_rank_rows() -> None:
    rows = [
        {"rank": 0, "host": "a", "state": "exited", "exit_code": 0, "detail": ""},
        {"rank": 1, "host": "b", "state": "lost", "exit_code": None, "detail": "silent for 31 s"},
        {"rank": 2, "host": "b", "state": "running"},
    ]
    assert list(rank_rows({"ranks": rows})) == [
        ("0", "a", "exited", "exit code 0"),
        ("1", "b", "lost", "silent for 31 s"),
        ("2", "b", "running", ""),
    ]
    assert list(rank_rows({})) == []


def test_attempts_are_listed_with_their_reasons() -> None:
    first = {"attempt": 1, "hosts": ["h1", "h2"], "reason": "host h2 was lost", "retired": {"h2": "silent for 30 s"}}
    last = {"attempt": 2, "hosts": ["h1", "h3"], "reason": "attempt 2 of 2: ddp_job_restarts is 1", "retired": {}}
    assert attempt_lines({"attempt": 2, "attempts": [first, last]}) == [
        "attempt 1 on h1, h2: host h2 was lost",
        "  retired h2: silent for 30 s",
        "attempt 2 on h1, h3: no restart: attempt 2 of 2: ddp_job_restarts is 1",
    ]
    assert attempt_lines({"attempt": 2, "attempts": [first, {**last, "reason": ""}]}) == [
        "attempt 1 on h1, h2: host h2 was lost",
        "  retired h2: silent for 30 s",
    ]
    assert attempt_lines({"attempt": 1}) == []
