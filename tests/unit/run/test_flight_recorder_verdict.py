"""What the verdict says of the ranks' flight recorders, and what it does where they cannot be read."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard.protocol import encode
from ddp_play.run.flight_recorder_verdict import finding
from ddp_play.testing import refusal
from tests.unit.build import hosts, plan
from tests.unit.run.conftest import Make, Stage, done

REPORT = """tabulate is not installed. Proceeding without it.
Not all ranks joining collective, sequence number: 4
internal record id: 3
group info: 0:default_pg
collective: nccl:all_gather
missing ranks: {1}
input sizes: [[8]]
expected ranks: {0, 1}
collective state: scheduled
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ""),
        (REPORT, "rank 1 on h2 never entered all_gather 4"),
        (REPORT.replace("{1}", "{1, 0}"), "rank 0 on h1, rank 1 on h2 never entered all_gather 4"),
        (REPORT + REPORT.replace("4", "5"), "rank 1 on h2 never entered all_gather 4"),
        (
            REPORT.replace("missing ranks: {1}\n", "") + REPORT.replace(": 4", ": 7"),
            "rank 1 on h2 never entered all_gather 7",
        ),
        (REPORT.replace("nccl:", ""), "rank 1 on h2 never entered all_gather 4"),
        # what a rank may have put into its dump
        (REPORT.replace("{1}", "{99}"), ""),
        (REPORT.replace("all_gather", "\x1b[2J"), ""),
        (REPORT.replace("{1}", "{}"), ""),
        ("AssertionError: Missing dump files from ranks {2}", ""),
    ],
)
def test_the_finding(text: str, says: str) -> None:
    assert finding(text, plan(*hosts(2))) == says


def failed(make: Make, *, dumps: int = 2, **row: Any) -> Stage:
    """Two hosts whose ranks failed and left this many dumps."""
    stage = make(2)
    for rank, name in enumerate(("h1", "h2")):
        done(stage, name, exit_code=1, **row)
        files = [encode("file", b"pickle", file="flight-recorder", rank=rank, last=True)] if rank < dumps else []
        stage.far[name].answers["fetch"] = [*files, encode("fetched", missing=[], artifacts=[])]
    return stage


def report(stage: Stage) -> str:
    return stage.paths.flight_recorder_report.read_text(encoding="utf-8")


def test_it_stands_in_the_verdict(make: Make) -> None:
    stage = failed(make)
    stage.far["h1"].answers["analyse"] = [encode("analysed", text=REPORT)]
    message = stage.supervisor().run().verdict.message
    assert message.endswith("; flight recorder: rank 1 on h2 never entered all_gather 4")
    assert stage.document["verdict"]["message"] == message
    assert report(stage) == REPORT


def test_a_host_that_cannot_read_them_changes_nothing(make: Make) -> None:
    stage = failed(make)
    stage.far["h1"].answers["analyse"] = refusal("analyse", "no Python in the PATH of the ranks")
    outcome = stage.supervisor().run()
    assert "flight recorder" not in outcome.verdict.message
    assert report(stage) == "not analysed: h1: no Python in the PATH of the ranks\n"
    assert stage.far["h1"].order("clean")


def test_a_full_disk_of_the_controller_does_not_change_how_the_run_ends(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("ddp_play.run.flight_recorder_verdict.write_text", full)
    stage = failed(make)
    stage.far["h1"].answers["analyse"] = [encode("analysed", text=REPORT)]
    assert stage.supervisor().run().verdict.message.endswith("never entered all_gather 4")
    assert stage.far["h1"].order("clean")


def test_an_incomplete_set_is_not_sent(make: Make) -> None:
    stage = failed(make, dumps=1)
    stage.supervisor().run()
    assert report(stage) == "not analysed: 1 of 2 ranks left no dump: 1 on h2\n"


def test_a_run_that_succeeded_is_not_looked_at(make: Make) -> None:
    stage = failed(make)
    for name in ("h1", "h2"):
        done(stage, name)
    stage.supervisor().run()
    assert not stage.paths.flight_recorder_report.exists()
