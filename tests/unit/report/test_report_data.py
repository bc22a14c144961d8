"""The document of a report: it fits the published schema, whatever the bundle has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddp_play.bundle.run_lookup import load
from ddp_play.report.report_data import report_document
from tests.schemas import check

from .bundles import ended_bundle, rank_row, write_metrics, write_samples
from .hostile import hostile_bundle
from .test_run_attempts import restarted, without_end


def document(paths: Any) -> dict[str, Any]:
    found = report_document(load(paths))
    check("report", found)
    json.dumps(found, allow_nan=False)
    return found


def test_a_good_run() -> None:
    paths = ended_bundle(ranks_per_host=2)
    write_metrics(paths, range(4), length=50, every_s=1)
    write_samples(paths, length=60, every_s=2, num_gpus=2)
    found = document(paths)
    assert found["run"]["sentence"] == "calm-otter-1 succeeded after 1 min 0 s: all 4 ranks exited 0"
    assert found["run"]["state"] == "pass"
    assert found["timeline"]["phase_seconds"]["running"] == 57.0
    assert [row["state"] for row in found["ranks"]] == ["ok"] * 4


def test_the_cause_and_ranks_that_ended_because_of_it() -> None:
    verdict = {"kind": "rank_failed", "message": "rank 1 failed", "rank": 1, "host": "h2", "collateral": [0]}
    rows = [rank_row(0, "h1", exit_code=1), rank_row(1, "h2", exit_code=9, signal=9)]
    found = document(ended_bundle(status="failed", verdict=verdict, ranks=rows, exit_code=137))
    assert [(row["part"], row["how"]) for row in found["ranks"]] == [
        ("collateral", "exit code 1"),
        ("cause", "signal 9 (SIGKILL)"),
    ]
    assert found["run"]["state"] == "fail"


@pytest.mark.parametrize(
    ("make", "state", "says"),
    [
        (restarted, "pass", "succeeded after 1 min 0 s, in 2 attempts: all 2 ranks exited 0"),
        (lambda: without_end(ended_bundle()), "unknown", "no process supervises it"),
        (lambda: ended_bundle(status="stopped"), "warn", "stopped after"),
        (hostile_bundle, "fail", "failed after"),
    ],
)
def test_other_ends(make: Any, state: str, says: str) -> None:
    found = document(make())
    assert found["run"]["state"] == state
    assert says in found["run"]["sentence"]


def test_what_helps() -> None:
    assert document(ended_bundle())["run"]["hint"] == ""
    assert document(ended_bundle(status="failed", verdict={"hint": "do this"}))["run"]["hint"] == "do this"
    assert document(without_end(ended_bundle()))["run"]["hint"] == "ddp-play attach calm-otter-1"


def test_a_bundle_with_nothing_but_its_first_file() -> None:
    paths = ended_bundle(ranks=[], hosts=[], host_versions={}, network={}, verdict={})
    for path in [*paths.root.rglob("*")]:
        if path.is_file() and path != paths.run:
            path.unlink()
    assert document(paths)["plan"] == {}
