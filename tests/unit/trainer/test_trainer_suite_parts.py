"""The pure parts of collectives, bench, stores, host groups and uneven shares."""

import threading
from argparse import ArgumentTypeError
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from trainer.collective_cases import CASES, WrongValueError, is_documented
from trainer.collective_check import Outcome, bounded, classify, table, worst
from trainer.collective_timing import percentile, size, sizes
from trainer.errors import TrainerError
from trainer.host_groups import ranks_beside
from trainer.memory import cgroup_left, host_available
from trainer.plain_tcp import local_address
from trainer.store import build_store, store_url
from trainer.timed_collectives import OPERATIONS
from trainer.uneven import local_batches, share
from trainer.world import World

WORLD = World(rank=0, world_size=2, backend="gloo", device=torch.device("cpu"))


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 100, 1437])
def test_uneven_shares_cover_everything_once(count: int, world_size: int) -> None:
    shares = [share(count, rank, world_size) for rank in range(world_size)]
    assert [position for one in shares for position in one] == list(range(count))
    sizes_found = [len(one) for one in shares]
    assert max(sizes_found) == sizes_found[-1]


def test_uneven_batches() -> None:
    assert share(60, 2, 3) == range(30, 60)
    assert [len(batch) for batch in local_batches(60, 8, 2, 3)] == [8, 8, 8, 6]


@pytest.mark.parametrize(
    ("rank", "hosts", "beside"),
    [(0, [7], (0,)), (1, [7, 7, 9], (0, 1)), (2, [7, 7, 9], (2,)), (2, [7, 9, 7], (0, 2))],
)
def test_ranks_beside(rank: int, hosts: list[int], beside: tuple[int, ...]) -> None:
    assert ranks_beside(rank, hosts) == beside


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("4K", 4096), ("64m", 2**26), ("1G", 2**30)])
def test_size(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize("text", ["", "K", "8B", "1.5G", "0", "-8"])
def test_size_refuses(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        size(text)


def test_percentiles_by_nearest_rank() -> None:
    values = [float(n) for n in range(1, 201)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (100.0, 198.0, 200.0)
    assert percentile([3.0], 0.99) == 3.0


def test_the_address_of_the_ranks_network() -> None:
    assert local_address({"GLOO_SOCKET_IFNAME": "lo"}) == "127.0.0.1"
    assert local_address({"NCCL_SOCKET_IFNAME": "=lo", "MASTER_ADDR": "192.0.2.1"}) == "127.0.0.1"
    assert local_address({"GLOO_SOCKET_IFNAME": "no-such-thing", "MASTER_ADDR": "127.0.0.1"}) == "127.0.0.1"
    assert local_address({"MASTER_ADDR": "::1"}) == "::1"


def test_sizes_end_with_the_largest() -> None:
    assert sizes(8, 8, 4) == [8]
    assert sizes(8, 100, 4) == [8, 32, 100]
    assert sizes(8, 128, 4) == [8, 32, 128]


@pytest.mark.parametrize(
    ("op", "factor"), [("all_reduce", 1.5), ("all_gather", 0.75), ("all_to_all", 0.75), ("broadcast", 1.0)]
)
def test_bus_factor_as_nccl_tests_define_it(op: str, factor: float) -> None:
    assert OPERATIONS[op].bus_factor(4) == factor


def test_memory() -> None:
    assert host_available("MemTotal: 9 kB\nMemAvailable:    5 kB\n") == 5120


@pytest.mark.parametrize(("limit", "left"), [("max\n", None), ("1000\n", 900), ("50\n", 0)])
def test_cgroup_left(tmp_path: Path, limit: str, left: int | None) -> None:
    (tmp_path / "max").write_text(limit)
    (tmp_path / "current").write_text("100\n")
    assert cgroup_left(tmp_path / "max", tmp_path / "current") == left
    assert cgroup_left(tmp_path / "absent", tmp_path / "current") is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WrongValueError("sum: 3 of 4 elements"), "wrong"),
        (RuntimeError("Timed out waiting 1000ms for recv operation to complete"), "hung"),
        (RuntimeError("ProcessGroupGloo does not support send"), "refused"),
        (NotImplementedError(), "refused"),
    ],
)
def test_classify(error: Exception, status: str) -> None:
    found, detail = classify(error)
    assert found == status
    assert detail


def test_a_call_that_never_returns_is_bounded() -> None:
    release = threading.Event()
    assert bounded(release.wait, 0.05) == ("hung", "no answer within 0.05 s")  # type: ignore[arg-type]
    release.set()
    assert bounded(lambda: None, 5) == ("works", "")


def test_the_worst_rank_counts_and_differences_are_marked() -> None:
    good, bad = Outcome("barrier", "works", "", 0.1, False), Outcome("barrier", "refused", "no", 0.0, False)
    assert worst((good, bad, good)) is bad
    assert "works    no*" in table([good], WORLD)
    assert "refused  no " in table([bad], WORLD)


def test_documented_table_names_real_rows() -> None:
    assert is_documented("gloo", "cpu", "send/recv") is True
    assert is_documented("gloo", "cuda", "send/recv") is False
    assert is_documented("mpi4py", "cpu", "send/recv") is None
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("env", "scheme", "where"),
    [
        ({"DDP_PLAY_STORE": "tcp://h:29500"}, "tcp", "h:29500"),
        ({"DDP_PLAY_STORE": "tcp://[::1]:29500"}, "tcp", "[::1]:29500"),
        ({"DDP_PLAY_STORE": "file:///shared/run/store"}, "file", ""),
        ({"MASTER_ADDR": "h", "MASTER_PORT": "1"}, "tcp", "h:1"),
    ],
)
def test_store_url(env: dict[str, str], scheme: str, where: str) -> None:
    url = store_url(env)
    assert (url.scheme, url.netloc) == (scheme, where)


@pytest.mark.parametrize("text", ["", "tcp://h", "tcp://h:x", "tcp://:1", "http://h:1", "file://"])
def test_store_url_refuses(text: str) -> None:
    with pytest.raises(TrainerError, match="neither tcp://HOST:PORT nor file:///PATH"):
        store_url({"DDP_PLAY_STORE": text})


def test_file_store_keeps_what_was_set(tmp_path: Path) -> None:
    store = build_store(0, 1, timedelta(seconds=5), {"DDP_PLAY_STORE": f"file://{tmp_path}/s"})
    store.set("key", "value")
    assert store.get("key") == b"value"
