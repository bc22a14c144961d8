"""Ranks as real child processes."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import ranks, secret_files
from ddp_play.guard.container_rank import make
from ddp_play.guard.ranks import ProcessRank, Rank
from ddp_play.guard.run_directory import HostRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "runs" / "night" / "1.h1")
    made.logs.mkdir(parents=True)
    return made


def process(place: HostRun, *argv: str, **more: Any) -> ProcessRank:
    rank = make({"rank": 0, "argv": list(argv), "env": {"PATH": os.environ["PATH"]}, "workdir": "/", **more}, place)
    assert isinstance(rank, ProcessRank)
    return rank


def until_ended(rank: Rank) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    while rank.running and time.monotonic() < deadline:
        ranks.reap([rank])
        rank.poll()
        time.sleep(0.01)
    assert rank.row["state"] == "exited"
    return rank.row


@pytest.mark.parametrize(
    ("script", "code", "signum", "failed"),
    [("exit 0", 0, None, False), ("exit 3", 3, None, True), ("kill -9 $$", 137, 9, True)],
)
def test_the_end_of_a_process(place: HostRun, script: str, code: int, signum: int | None, failed: bool) -> None:
    rank = process(place, "/bin/sh", "-c", f"echo to out; echo to err >&2; {script}")
    assert (rank.running, rank.failed) == (False, False)
    rank.start()
    row = until_ended(rank)
    assert (row["exit_code"], row["signal"], row["stopped"], rank.failed) == (code, signum, False, failed)
    assert place.log(0).read_bytes() == b"to out\nto err\n"
    assert row["started"] <= row["ended"]


def test_a_rank_that_we_ended_has_not_failed(place: HostRun) -> None:
    rank = process(place, "/bin/sleep", "100")
    rank.start()
    os.kill(rank.row["pid"], signal.SIGSTOP)  # a frozen one hears it too
    rank.send(signal.SIGTERM)
    row = until_ended(rank)
    assert (row["exit_code"], row["signal"], row["stopped"], rank.failed) == (143, signal.SIGTERM, True, False)
    rank.send(signal.SIGTERM)  # nobody is there any more


def test_a_warning_is_no_end_of_ours(place: HostRun) -> None:
    rank = process(place, "/bin/sleep", "100")
    rank.start()
    rank.warn(signal.SIGUSR1)
    row = until_ended(rank)
    assert (row["signal"], row["stopped"], rank.failed) == (signal.SIGUSR1, False, True)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["/nowhere/python"], 127, "cannot start /nowhere/python"),
        (["/etc/passwd"], 126, "cannot start /etc/passwd"),
    ],
)
def test_a_command_that_cannot_start(place: HostRun, argv: list[str], code: int, words: str) -> None:
    rank = process(place, *argv)
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"]) == ("exited", code)
    assert words in place.log(0).read_text()


def test_secrets_reach_the_process(place: HostRun) -> None:
    secret_files.write(place.secrets, {"TOKEN": b"hunter2"})
    rank = process(place, "/bin/sh", "-c", 'echo "$TOKEN"', secret_env=["TOKEN"])
    rank.start()
    until_ended(rank)
    assert place.log(0).read_bytes() == b"hunter2\n"


def test_a_rank_without_its_secret_does_not_start(place: HostRun) -> None:
    rank = process(place, "/bin/sh", "-c", "true", secret_env=["TOKEN"])
    rank.start()
    assert (rank.row["state"], rank.row["exit_code"], rank.row["pid"]) == ("exited", 126, None)
    assert "cannot read a secret of this rank" in place.log(0).read_text()
