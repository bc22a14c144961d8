"""The program that `ddp-play check --level full` runs in the ranks' Python: as it is sent, on this machine."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ddp_play.checks.torch_load import NUMBERS, SIZE_NUMBERS
from ddp_play.guard.rank_program import run
from trainer import host_check

pytestmark = pytest.mark.dist
SOURCE = Path(host_check.__file__).read_text(encoding="utf-8")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def group(rank: int, world: int, port: int, timeout_s: float = 60.0) -> dict[str, Any]:
    return {"rank": rank, "world": world, "address": "127.0.0.1", "port": port, "interface": "lo",
            "sizes": [4096, 1 << 20], "timeout_s": timeout_s}  # fmt: skip


def parts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert "problem" not in found, found
    return {part["part"]: part for part in found["parts"]}


def test_hosts_multiply_and_reduce_together() -> None:
    port = free_port()
    orders = [{"multiply": {"size": 128, "seconds": 0.1}, "group": group(rank, 3, port)} for rank in range(3)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda order: parts(run(sys.executable, SOURCE, order, 200)), orders))
    for answer in answers:
        assert answer["start"]["device"] == "cpu"
        multiplied = answer["multiply"]
        assert multiplied["right"] is True
        assert all(multiplied[name] > 0 for name in NUMBERS)
        sizes = answer["group"]["sizes"]
        assert [row["bytes"] for row in sizes] == [4096, 1 << 20]
        assert all(row["wrong"] == 0 and set(SIZE_NUMBERS) <= set(row) for row in sizes)
    assert len({answer["group"]["sizes"][0]["seconds"] for answer in answers}) == 1, "that of the slowest rank"


def test_a_group_that_nobody_joins_ends_with_its_reason_and_what_came_before_counts() -> None:
    order = {"multiply": {"size": 64, "seconds": 0.1}, "group": group(0, 2, free_port(), timeout_s=2.0)}
    answer = parts(run(sys.executable, SOURCE, order, 120))
    assert answer["multiply"]["right"] is True
    assert answer["group"]["problem"]
