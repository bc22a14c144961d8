"""The program that `ddp-play check --level full` runs in the ranks' Python: as it is sent, on this machine."""

from __future__ import annotations

import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

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


def test_repeats_have_the_same_bits_on_each_processor() -> None:
    order = {"repeat": {"seconds": 0.5, "first": 5}}
    one, other = (parts(run(sys.executable, SOURCE, order, 120))["repeat"] for _ in range(2))
    assert one["wrong"] == other["wrong"] == 0
    assert (one["digest"], one["kind"]) == (other["digest"], other["kind"]), "two processes calculate the same"
    assert one["next"] - 5 == one["calls"] >= 3
    assert 1 <= one["cpus"] <= len(os.sched_getaffinity(0))
    assert "torch" in one["kind"]


class Faulty:
    """torch with a processor that loses the last bit of one product in so many."""

    def __init__(self, every: int) -> None:
        self.every, self.calls = every, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def mm(self, one: Any, other: Any) -> Any:
        result = torch.mm(one, other)
        self.calls += 1
        if self.calls % self.every == 0:
            bits = result.view(torch.int32)
            bits[3, 5] ^= 1
        return result


def test_one_bit_that_is_wrong_once_is_seen_and_its_processor_named() -> None:
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    found = host_check.repeat(Faulty(every=100), torch.device("cpu"), {"seconds": 1.0})
    assert 0 < found["wrong"] < found["calls"] / 2
    assert found["odd"]
    assert set(found["odd"]) <= {str(cpu) for cpu in before}
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (before, threads)
    well = host_check.repeat(torch, torch.device("cpu"), {"seconds": 0.2})
    assert (well["wrong"], well["odd"]) == (0, [])
    assert well["digest"] == found["digest"], "most results are right"
