"""Every collective, called once with values whose outcome is known; a case raises if it differs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

LENGTH = 1000  # elements per tensor: more than one packet, not enough to wait for


class WrongValueError(Exception):
    """A collective returned, with the wrong numbers."""


@dataclass(frozen=True)
class Here:
    """Where a case runs. Rank r contributes r + 1, so a sum over n ranks is n(n + 1) / 2."""

    rank: int
    size: int
    device: torch.device
    group: dist.ProcessGroup

    def full(self, value: float, dtype: torch.dtype = torch.float32, length: int = LENGTH) -> Tensor:
        return torch.full((length,), value, dtype=dtype, device=self.device)

    @property
    def mine(self) -> Tensor:
        return self.full(self.rank + 1)

    def rows(self, width: int = LENGTH) -> list[Tensor]:
        """One tensor to fill for each rank."""
        return [self.full(0, length=width) for _ in range(self.size)]

    @property
    def total(self) -> int:
        return self.size * (self.size + 1) // 2


def expect(what: str, found: Tensor, value: float) -> None:
    """Every element must be `value`."""
    wrong = int((found != value).sum())
    if wrong:
        first = float(found[found != value].flatten()[0])
        raise WrongValueError(f"{what}: {wrong} of {found.numel()} elements are not {value}, the first is {first}")


def send_recv(here: Here) -> None:
    left, right = (here.rank - 1) % here.size, (here.rank + 1) % here.size
    received = here.full(0)
    if here.rank == 0:  # one rank must send first, or a ring of blocking calls waits for itself
        dist.send(here.mine, right, group=here.group)
        dist.recv(received, left, group=here.group)
    else:
        dist.recv(received, left, group=here.group)
        dist.send(here.mine, right, group=here.group)
    expect("recv", received, left + 1)


def isend_irecv(here: Here) -> None:
    left, right = (here.rank - 1) % here.size, (here.rank + 1) % here.size
    received = here.full(0)
    for work in (
        dist.isend(here.mine, right, group=here.group),
        dist.irecv(received, left, group=here.group),
    ):
        if work is not None:
            work.wait()
    expect("irecv", received, left + 1)


def recv_any(here: Here) -> None:
    if here.rank > 0:
        dist.send(here.mine, 0, group=here.group)
        return
    for _ in range(here.size - 1):
        received = here.full(0)
        source = dist.recv(received, None, group=here.group)
        expect("recv from any", received, source + 1)


def batch_isend_irecv(here: Here) -> None:
    left, right = (here.rank - 1) % here.size, (here.rank + 1) % here.size
    received = here.full(0)
    operations = [
        dist.P2POp(dist.isend, here.mine, right, group=here.group),
        dist.P2POp(dist.irecv, received, left, group=here.group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect("irecv", received, left + 1)


def broadcast(here: Here) -> None:
    tensor = here.mine
    dist.broadcast(tensor, src=here.size - 1, group=here.group)
    expect("broadcast", tensor, here.size)


def all_reduce(here: Here) -> None:
    tensor = here.mine
    dist.all_reduce(tensor, group=here.group)
    expect("sum", tensor, here.total)


def all_reduce_max(here: Here) -> None:
    tensor = here.mine
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=here.group)
    expect("max", tensor, here.size)


def all_reduce_avg(here: Here) -> None:
    tensor = here.mine
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=here.group)
    expect("average", tensor, here.total / here.size)


def all_reduce_bf16(here: Here) -> None:
    tensor = here.full(1, torch.bfloat16)  # bfloat16 counts exactly to 256
    dist.all_reduce(tensor, group=here.group)
    expect("sum", tensor, here.size)


def all_reduce_coalesced(here: Here) -> None:
    tensors = [here.mine, here.full(here.rank + 1, length=7)]
    dist.all_reduce_coalesced(tensors, group=here.group)
    for tensor in tensors:
        expect("sum", tensor, here.total)


def reduce(here: Here) -> None:
    tensor, destination = here.mine, here.size - 1
    dist.reduce(tensor, dst=destination, group=here.group)
    if here.rank == destination:
        expect("sum", tensor, here.total)


def all_gather(here: Here) -> None:
    rows = here.rows()
    dist.all_gather(rows, here.mine, group=here.group)
    _expect_ranks("all_gather", rows)


def all_gather_single(here: Here) -> None:
    gathered = here.full(0, length=LENGTH * here.size)
    # the new name (torch 2.13) of all_gather_into_tensor
    function = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    function(gathered, here.mine, group=here.group)
    _expect_ranks("all_gather_single", list(gathered.chunk(here.size)))


def all_gather_coalesced(here: Here) -> None:
    short = here.full(here.rank + 1, length=7)
    outputs = [[*pair] for pair in zip(here.rows(), here.rows(7), strict=True)]
    dist.all_gather_coalesced(outputs, [here.mine, short], group=here.group)
    for rank, pair in enumerate(outputs):
        for tensor in pair:
            expect(f"from rank {rank}", tensor, rank + 1)


def gather(here: Here) -> None:
    rows = here.rows() if here.rank == 0 else None
    dist.gather(here.mine, rows, dst=0, group=here.group)
    _expect_ranks("gather", rows or [])


def scatter(here: Here) -> None:
    received = here.full(0)
    rows = [here.full(rank + 1) for rank in range(here.size)] if here.rank == 0 else None
    dist.scatter(received, rows, src=0, group=here.group)
    expect("scatter", received, here.rank + 1)


def reduce_scatter(here: Here) -> None:
    received = here.full(0)
    rows = [here.full((rank + 1) * (here.rank + 1)) for rank in range(here.size)]
    dist.reduce_scatter(received, rows, group=here.group)
    expect("sum", received, (here.rank + 1) * here.total)


def reduce_scatter_single(here: Here) -> None:
    received = here.full(0)
    rows = torch.cat([here.full((rank + 1) * (here.rank + 1)) for rank in range(here.size)])
    function = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    function(received, rows, group=here.group)
    expect("sum", received, (here.rank + 1) * here.total)


def all_to_all(here: Here) -> None:
    received = here.rows()
    dist.all_to_all(received, [here.full(_pair(here, to)) for to in range(here.size)], group=here.group)
    _expect_pairs(here, received)


def all_to_all_single(here: Here) -> None:
    received = here.full(0, length=LENGTH * here.size)
    dist.all_to_all_single(
        received, torch.cat([here.full(_pair(here, to)) for to in range(here.size)]), group=here.group
    )
    _expect_pairs(here, list(received.chunk(here.size)))


def all_to_all_single_uneven(here: Here) -> None:
    """Rank r sends s + 1 elements to rank s, so it receives r + 1 from each."""
    sizes = [to + 1 for to in range(here.size)]
    sent = torch.cat([here.full(_pair(here, to), length=to + 1) for to in range(here.size)])
    received = here.full(0, length=(here.rank + 1) * here.size)
    dist.all_to_all_single(received, sent, [here.rank + 1] * here.size, sizes, group=here.group)
    _expect_pairs(here, list(received.chunk(here.size)))


def barrier(here: Here) -> None:
    dist.barrier(group=here.group)


def monitored_barrier(here: Here) -> None:
    dist.monitored_barrier(group=here.group)


def object_collectives(here: Here) -> None:
    gathered: list[Any] = [None] * here.size
    dist.all_gather_object(gathered, {"rank": here.rank}, group=here.group)
    sent: list[Any] = [f"from {here.rank}"]
    dist.broadcast_object_list(sent, src=here.size - 1, group=here.group)
    if gathered != [{"rank": rank} for rank in range(here.size)] or sent != [f"from {here.size - 1}"]:
        raise WrongValueError(f"objects: {gathered}, {sent}")


def _pair(here: Here, to: int) -> int:
    return here.rank * here.size + to + 1


def _expect_pairs(here: Here, received: list[Tensor]) -> None:
    for source, tensor in enumerate(received):
        expect(f"from rank {source}", tensor, source * here.size + here.rank + 1)


def _expect_ranks(what: str, rows: list[Tensor]) -> None:
    for rank, tensor in enumerate(rows):
        expect(f"{what} from rank {rank}", tensor, rank + 1)


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable[[Here], None]
    documented_as: str  # the row of torch's table of backends that it belongs to
    least_ranks: int = 1
    only: str = ""  # the one backend that has it


CASES = (
    Case("send/recv", send_recv, "send/recv", least_ranks=2),
    Case("isend/irecv", isend_irecv, "send/recv", least_ranks=2),
    Case("recv from any", recv_any, "send/recv", least_ranks=2),
    Case("batch_isend_irecv", batch_isend_irecv, "send/recv", least_ranks=2),
    Case("broadcast", broadcast, "broadcast"),
    Case("all_reduce", all_reduce, "all_reduce"),
    Case("all_reduce max", all_reduce_max, "all_reduce"),
    Case("all_reduce avg", all_reduce_avg, "all_reduce"),
    Case("all_reduce bf16", all_reduce_bf16, "all_reduce"),
    Case("all_reduce_coalesced", all_reduce_coalesced, "all_reduce"),
    Case("reduce", reduce, "reduce"),
    Case("all_gather", all_gather, "all_gather"),
    Case("all_gather_single", all_gather_single, "all_gather"),
    Case("all_gather_coalesced", all_gather_coalesced, "all_gather"),
    Case("gather", gather, "gather"),
    Case("scatter", scatter, "scatter"),
    Case("reduce_scatter", reduce_scatter, "reduce_scatter"),
    Case("reduce_scatter_single", reduce_scatter_single, "reduce_scatter"),
    Case("all_to_all", all_to_all, "all_to_all"),
    Case("all_to_all_single", all_to_all_single, "all_to_all"),
    Case("all_to_all_single uneven", all_to_all_single_uneven, "all_to_all"),
    Case("barrier", barrier, "barrier"),
    Case("monitored_barrier", monitored_barrier, "barrier", only="gloo"),
    Case("objects", object_collectives, "all_gather"),
)

# What torch's own table (docs "Backends") leaves blank, by backend and device; everything else it ticks.
# mpi on a GPU is not here: that depends on the MPI.
DOCUMENTED_GAPS: dict[tuple[str, str], frozenset[str]] = {
    ("gloo", "cpu"): frozenset(),
    ("gloo", "cuda"): frozenset({"send/recv", "barrier"}),
    ("mpi", "cpu"): frozenset({"reduce_scatter"}),
    ("nccl", "cuda"): frozenset(),
}


def is_documented(backend: str, device: str, row: str) -> bool | None:
    """Whether torch's table ticks this row; None where it has no such column."""
    gaps = DOCUMENTED_GAPS.get((backend, device))
    return None if gaps is None else row not in gaps
