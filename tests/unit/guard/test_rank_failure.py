"""Whether a rank failed, and messages of torch and of the kernel that say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.guard.container_rank import make
from ddp_play.guard.rank_failure import LAST_BYTES, LAST_LINES, blames_a_peer, is_collateral, is_oom
from ddp_play.guard.run_directory import HostRun

PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:34710"


@pytest.mark.parametrize(
    ("text", "collateral"),
    [
        ("", False),
        ("ValueError: no such column", False),
        (PEER, True),
        ("torch.distributed.DistBackendError: NCCL error ... remote process exited or there was a network error", True),
        ("torch.distributed.DistNetworkError: The client socket has timed out after 60000ms", True),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", True),
        (PEER + "\nline" * LAST_LINES, False),
        (PEER + "\nline" * (LAST_LINES - 1), True),
    ],
)
def test_whose_end_a_rank_complains_of(text: str, collateral: bool) -> None:
    assert is_collateral(text) is collateral


@pytest.mark.parametrize(
    ("line", "oom"),
    [
        ("", False),
        ("python3[7]: segfault at 0 ip 00007f", False),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/docker/ab,task=python3,pid=41,uid=0", True),
        ("Task in /docker/ab killed as a result of limit of /docker/ab", True),
        ("Memory cgroup out of memory: Killed process 41 (python3) total-vm:1kB", True),
    ],
)
def test_which_kernel_messages_tell_of_an_oom_kill(line: str, oom: bool) -> None:
    assert is_oom(["eth0: link up", line]) is oom


def test_only_the_end_of_a_log_counts(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    assert not blames_a_peer(log)
    log.write_text("x" * LAST_BYTES + "\n" + PEER + "\n")
    assert blames_a_peer(log)
    log.write_text(PEER + "\n" + "x" * LAST_BYTES)
    assert not blames_a_peer(log)


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        ({"state": "created", "exit_code": None, "stopped": False}, False),
        ({"state": "running", "exit_code": None, "stopped": False}, False),
        ({"state": "exited", "exit_code": 0, "stopped": False}, False),
        ({"state": "exited", "exit_code": 3, "stopped": False}, True),
        ({"state": "exited", "exit_code": None, "stopped": False}, True),
        ({"state": "exited", "exit_code": 143, "stopped": True}, False),
    ],
)
def test_guard_and_controller_call_the_same_ranks_failed(tmp_path: Path, row: dict[str, Any], failed: bool) -> None:
    on_host = make({"rank": 0}, HostRun(tmp_path))
    on_host.row.update(row)
    assert on_host.failed is failed
    assert RankOutcome(rank=0, host="h1", **row).failed is failed


def test_a_rank_of_a_lost_host_has_not_failed() -> None:
    assert RankOutcome(rank=0, host="h1", state="lost").failed is False
