"""What a message promises about files that stay on hosts: only what a command can still do."""

from __future__ import annotations

import dataclasses

import pytest

from ddp_play.bundle.outcome import HOST_LOST, Outcome, RunStatus, Verdict
from ddp_play.engines.route import Route
from ddp_play.run.left_files import LeftFiles

SSH = LeftFiles.of("night", [Route("h1", ("ssh", "h1"), "channel")])
LOCAL = LeftFiles.of("night", [Route("h1", ("sh", "-c"), "channel")])
SLURM = LeftFiles.of("night", [Route("n1", ("/usr/bin/srun", "--nodelist=n1"), "channel")])
OVER = "the Slurm job, through which it was reached, ends with the run"


def outcome(kind: str = HOST_LOST) -> Outcome:
    return Outcome(RunStatus.FAILED, Verdict(kind, "host h2 was lost", 69, hint="as it was"))


@pytest.mark.parametrize("left", [SSH, LOCAL, LeftFiles.of("night", [])])
def test_hosts_that_stay_are_asked_again(left: LeftFiles) -> None:
    collects = "ddp-play attach night collects it"
    assert left.collects == collects
    assert (
        left.uncleaned("silent", is_collected=False)
        == f"unknown, also whether its ranks still run: silent; when the host is back, {collects}"
    )
    assert left.uncleaned("silent", is_collected=True).endswith(
        "when the host is back, ddp-play gc -i INVENTORY --yes removes it"
    )
    again = "ddp-play attach night tries again, ddp-play gc -i INVENTORY --run RUN --yes removes it for good"
    assert left.kept("/src") == f"/src: not all of it was collected; {again}"
    assert left.kept("/src", 7).endswith(
        "; ddp-play attach night --artifacts-max-mib 7 collects what exceeds the limit"
    )
    assert (left.then("x"), left.when_back("x")) == ("x", "when the host is back, x")


def test_nothing_is_promised_about_hosts_of_an_allocation() -> None:
    """`attach` only says that the job is over, and gc has no way to the node."""
    stay = f"its files stay in runs/night.* of ddp_state_dir there: {OVER}"
    assert SLURM.uncleaned("silent", is_collected=False) == f"unknown: silent; {stay}"
    assert {SLURM.kept("/src", mib) for mib in (0, 7)} == {f"/src: not all of it was collected; it stays there: {OVER}"}
    rows = [SLURM.collects, SLURM.when_back("x"), SLURM.then("x"), SLURM.uncleaned("silent", is_collected=True)]
    rows.append(SLURM.advised(outcome(), ("n1",)).verdict.hint)
    assert not [row for row in rows if "ddp-play" in row or "is back" in row]


@pytest.mark.parametrize(
    ("left", "uncollected", "hint"),
    [
        (SSH, ("h2",), "when h2 is back, ddp-play attach RUN collects its files"),
        (SSH, ("h2", "h3"), "when h2, h3 are back, ddp-play attach RUN collects their files"),
        (SSH, (), "the files of all hosts are in the bundle"),
        (SLURM, ("n2",), f"n2: its files stay in runs/night.* of ddp_state_dir there: {OVER}"),
        (SLURM, (), "the files of all hosts are in the bundle"),
    ],
)
def test_the_hint_after_a_lost_host(left: LeftFiles, uncollected: tuple[str, ...], hint: str) -> None:
    advised = left.advised(outcome(), uncollected)
    assert advised.verdict.hint == hint
    assert (advised.status, advised.verdict.message) == (RunStatus.FAILED, "host h2 was lost")


@pytest.mark.parametrize("left", [SSH, SLURM])
def test_not_all_is_in_the_bundle_if_something_is_missing(left: LeftFiles) -> None:
    row = {"host": "h1", "path": "artifacts/model.pt", "why": "it changed while it was read"}
    advised = left.advised(dataclasses.replace(outcome(), missing=(row,)), ())
    assert advised.verdict.hint == "ddp-play results RUN lists what was not collected"
    assert advised.missing == (row,)


def test_the_hint_of_another_verdict_stays() -> None:
    assert SSH.advised(outcome("rank_failed"), ("h2",)) == outcome("rank_failed")
