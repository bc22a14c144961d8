"""What a report says about its own gaps."""

from __future__ import annotations

import pytest

from ddp_play.bundle.run_lookup import load
from ddp_play.report.report_data import report_document

from .bundles import ended_bundle, rank_row, write_metrics, write_samples
from .test_run_attempts import without_end


def test_a_complete_bundle_lacks_nothing() -> None:
    paths = ended_bundle()
    write_metrics(paths, [0, 1], length=50, every_s=1)
    write_samples(paths, length=60, every_s=2)
    assert report_document(load(paths))["missing"] == []


def test_files_that_were_not_collected_and_what_is_on_hosts() -> None:
    paths = ended_bundle(
        missing=[{"host": "h2", "path": "a.pt", "why": "gone"}], left_behind={"h2": ["a directory"]},
        ranks=[rank_row(0, "h1"), rank_row(1, "h2", log_complete=False)],
    )  # fmt: skip
    found = report_document(load(paths))["missing"]
    assert found[:3] == [
        "not collected from h2: a.pt (gone)",
        "still on h2: a directory",
        "the complete logs of rank 1",
    ]


@pytest.mark.parametrize(
    "says",
    ["the end of the run: its supervisor is gone. ddp-play attach calm-otter-1", "metrics:", "samples of h1, h2",
     "network traffic:"],
)  # fmt: skip
def test_of_a_killed_controller(says: str) -> None:
    found = report_document(load(without_end(ended_bundle())))["missing"]
    assert any(line.startswith(says) for line in found)


def test_a_run_that_never_had_a_plan() -> None:
    paths = ended_bundle(status="failed", ranks=[])
    paths.plan.unlink()
    (line,) = report_document(load(paths))["missing"]
    assert line.startswith("a plan:")


def test_of_many_rows_it_says_that_not_all_were_read() -> None:
    paths = ended_bundle()
    write_metrics(paths, [0], length=30_000, every_s=1)
    assert any(line.startswith("most rows of the metrics") for line in report_document(load(paths))["missing"])
