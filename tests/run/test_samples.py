"""Samples of a run's hosts: they reach the bundle while it runs, once each, also over a take-over."""

from __future__ import annotations

import itertools
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.samples import SampleFile, read_samples
from ddp_play.guard.processes import children
from tests.endings import kill_each
from tests.run.conftest import Play, living
from tests.run.test_restarts import begun, fleet, guard_pid, rank_pid, waiting
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.runner]


def samples(run: Path, host: str) -> SampleFile:
    return read_samples(RunPaths(run).samples(host))


def num_of_rank(run: Path, host: str, rank: str, attempt: int) -> int:
    """Number of rows of an attempt that have this rank."""
    rows = samples(run, host).rows
    return len([row for row in rows if row["attempt"] == attempt and rank in row.get("ranks", {})])


def test_a_take_over_repeats_no_row_and_tells_what_follows(play: Play) -> None:
    run = play.home / "runs" / "night"
    told = play.cwd / "told"
    job = waiting(play, lease="10m", samples=0.5, hook=["sh", "-c", f"cat >> {told}; echo >> {told}"])
    play("run", job, "-i", fleet(play, "a", "b"), "-d", "--name", "night")
    wait_until(lambda: begun(play, "night", 1), timeout_s=60, what="both ranks")
    wait_until(lambda: num_of_rank(run, "b", "1", 1) >= 2, timeout_s=60, what="rows of the first attempt")
    guards = {guard_pid(play, "night", host) for host in "ab"}
    kill_each(set(living(str(run))) - {*guards, *(child for guard in guards for child in children(guard))})
    before = len(samples(run, "a").rows)
    child = play.start("attach", "night")
    wait_until(lambda: len(samples(run, "a").rows) >= before + 3, timeout_s=90, what="rows after the take-over")
    os.kill(rank_pid(play, "night", 1, "b"), signal.SIGKILL)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    for host in "ab":
        found = samples(run, host)
        assert found.header["cores"] == os.cpu_count()
        ends = [(row["attempt"], row["up"], row["s"]) for row in found.rows]
        for (attempt, end, _), (following, next_end, seconds) in itertools.pairwise(ends):
            assert following != attempt or next_end - seconds >= end - 0.01, "no second is in two rows"
    assert play.left_on_host() == []
    wait_until(lambda: len(told.read_text().splitlines()) >= 3, timeout_s=60, what="the last event")
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert [event["event"] for event in events] == ["start", "restart", "end"]
    assert (events[1]["attempt"], events[2]["exit_class"]) == (2, "done")


def test_the_end_of_a_run_that_cannot_start_is_told(play: Play) -> None:
    told = play.cwd / "told"
    job = waiting(play, hosts=9, hook=["sh", "-c", f"cat >> {told}.new; mv {told}.new {told}"])
    assert play("run", job, "-i", fleet(play, "a", "b"), "--dry-run").code != 0
    done = play("run", job, "-i", fleet(play, "a", "b"), "--name", "night")
    assert done.code != 0
    wait_until(told.exists, timeout_s=60, what="the event")
    event = json.loads(told.read_text())
    assert (event["event"], event["run"], event["exit_code"]) == ("end", "night", done.code)
    assert event["message"] in done.err
