"""Ends of logs within a budget, those of ranks that failed first."""

from __future__ import annotations

from ddp_play.bundle.run_lookup import load
from ddp_play.report.log_ends import BUDGET, hang_evidence, log_ends
from ddp_play.report.run_attempts import read_story

from .bundles import ended_bundle, rank_row
from .test_run_attempts import restarted


def test_the_log_of_the_rank_that_failed_comes_first() -> None:
    paths = ended_bundle(ranks=[rank_row(0, "h1"), rank_row(1, "h2", exit_code=3)], status="failed")
    rows = log_ends(read_story(load(paths)).attempts)
    assert [(row["rank"], row["host"], row["is_whole"]) for row in rows] == [(1, "h2", True), (0, "h1", True)]
    assert rows[0]["lines"][-1] == "step 299 loss 0.0033 on rank 1"


def test_of_an_earlier_attempt_only_ranks_that_failed() -> None:
    paths = restarted()
    paths.attempt(1).log(1).write_bytes(b"the last words\n")
    rows = log_ends(read_story(load(paths)).attempts)
    assert [(row["attempt"], row["rank"]) for row in rows] == [(2, 0), (2, 1), (1, 1)]
    assert rows[-1]["lines"] == ["the last words"]


def test_a_huge_log_without_line_ends_is_cut() -> None:
    paths = ended_bundle()
    paths.log(0).write_bytes(b"\xff" * 10_000_000)
    row = log_ends(read_story(load(paths)).attempts)[0]
    assert (row["size"], row["is_whole"], len(row["lines"])) == (10_000_000, False, 1)
    assert len(row["lines"][0]) < 1000


def test_a_thousand_logs_stay_within_the_budget() -> None:
    paths = ended_bundle(num_hosts=64, ranks_per_host=16)
    rows = log_ends(read_story(load(paths)).attempts)
    assert len(rows) == 1024
    assert 0 < sum(len("\n".join(row["lines"])) for row in rows) <= BUDGET


def test_the_log_of_torchrun_is_there_and_absent_logs_are_empty() -> None:
    paths = ended_bundle()
    paths.agent_log("h2").write_bytes(b"agent\n")
    paths.log(1).unlink()
    rows = log_ends(read_story(load(paths)).attempts)
    assert [(row["rank"], row["size"]) for row in rows[1:]] == [(1, 0), (None, 6)]


def test_stacks_and_states_of_a_hang() -> None:
    paths = ended_bundle()
    assert hang_evidence(read_story(load(paths)).attempts) == []
    for rank, kind in ((1, "stack"), (0, "proc")):
        paths.evidence(rank, kind).parent.mkdir(exist_ok=True)
        paths.evidence(rank, kind).write_bytes(b"line\n" * 10)
    paths.flight_recorder_report.write_text("rank 1 is behind\n")
    rows = hang_evidence(read_story(load(paths)).attempts)
    assert [(row["rank"], row["kind"], row["is_whole"]) for row in rows] == [
        (None, "collectives", True), (0, "proc", True), (1, "stack", True),
    ]  # fmt: skip
    assert rows[0]["lines"] == ["rank 1 is behind"]
