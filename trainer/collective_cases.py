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
class CaseContext:
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


def send_recv(context: CaseContext) -> None:
    left, right = (context.rank - 1) % context.size, (context.rank + 1) % context.size
    received = context.full(0)
    if context.rank == 0:  # one rank must send first, or a ring of blocking calls waits for itself
        dist.send(context.mine, right, group=context.group)
        dist.recv(received, left, group=context.group)
    else:
        dist.recv(received, left, group=context.group)
        dist.send(context.mine, right, group=context.group)
    expect("recv", received, left + 1)


def isend_irecv(context: CaseContext) -> None:
    left, right = (context.rank - 1) % context.size, (context.rank + 1) % context.size
    received = context.full(0)
    for work in (
        dist.isend(context.mine, right, group=context.group),
        dist.irecv(received, left, group=context.group),
    ):
        if work is not None:
            work.wait()
    expect("irecv", received, left + 1)


def recv_any(context: CaseContext) -> None:
    if context.rank > 0:
        dist.send(context.mine, 0, group=context.group)
        return
    for _ in range(context.size - 1):
        received = context.full(0)
        source = dist.recv(received, None, group=context.group)
        expect("recv from any", received, source + 1)


def batch_isend_irecv(context: CaseContext) -> None:
    left, right = (context.rank - 1) % context.size, (context.rank + 1) % context.size
    received = context.full(0)
    operations = [
        dist.P2POp(dist.isend, context.mine, right, group=context.group),
        dist.P2POp(dist.irecv, received, left, group=context.group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect("irecv", received, left + 1)


def broadcast(context: CaseContext) -> None:
    tensor = context.mine
    dist.broadcast(tensor, src=context.size - 1, group=context.group)
    expect("broadcast", tensor, context.size)


def all_reduce(context: CaseContext) -> None:
    tensor = context.mine
    dist.all_reduce(tensor, group=context.group)
    expect("sum", tensor, context.total)


def all_reduce_max(context: CaseContext) -> None:
    tensor = context.mine
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=context.group)
    expect("max", tensor, context.size)


def all_reduce_avg(context: CaseContext) -> None:
    tensor = context.mine
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=context.group)
    expect("average", tensor, context.total / context.size)


def all_reduce_bf16(context: CaseContext) -> None:
    tensor = context.full(1, torch.bfloat16)  # bfloat16 counts exactly to 256
    dist.all_reduce(tensor, group=context.group)
    expect("sum", tensor, context.size)


def all_reduce_coalesced(context: CaseContext) -> None:
    tensors = [context.mine, context.full(context.rank + 1, length=7)]
    dist.all_reduce_coalesced(tensors, group=context.group)
    for tensor in tensors:
        expect("sum", tensor, context.total)


def reduce(context: CaseContext) -> None:
    tensor, destination = context.mine, context.size - 1
    dist.reduce(tensor, dst=destination, group=context.group)
    if context.rank == destination:
        expect("sum", tensor, context.total)


def all_gather(context: CaseContext) -> None:
    rows = context.rows()
    dist.all_gather(rows, context.mine, group=context.group)
    _expect_ranks("all_gather", rows)


def all_gather_single(context: CaseContext) -> None:
    gathered = context.full(0, length=LENGTH * context.size)
    # the new name (torch 2.13) of all_gather_into_tensor
    function = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    function(gathered, context.mine, group=context.group)
    _expect_ranks("all_gather_single", list(gathered.chunk(context.size)))


def all_gather_coalesced(context: CaseContext) -> None:
    short = context.full(context.rank + 1, length=7)
    outputs = [[*pair] for pair in zip(context.rows(), context.rows(7), strict=True)]
    dist.all_gather_coalesced(outputs, [context.mine, short], group=context.group)
    for rank, pair in enumerate(outputs):
        for tensor in pair:
            expect(f"from rank {rank}", tensor, rank + 1)


def gather(context: CaseContext) -> None:
    rows = context.rows() if context.rank == 0 else None
    dist.gather(context.mine, rows, dst=0, group=context.group)
    _expect_ranks("gather", rows or [])


def scatter(context: CaseContext) -> None:
    received = context.full(0)
    rows = [context.full(rank + 1) for rank in range(context.size)] if context.rank == 0 else None
    dist.scatter(received, rows, src=0, group=context.group)
    expect("scatter", received, context.rank + 1)


def reduce_scatter(context: CaseContext) -> None:
    received = context.full(0)
    rows = [context.full((rank + 1) * (context.rank + 1)) for rank in range(context.size)]
    dist.reduce_scatter(received, rows, group=context.group)
    expect("sum", received, (context.rank + 1) * context.total)


def reduce_scatter_single(context: CaseContext) -> None:
    received = context.full(0)
    rows = torch.cat([context.full((rank + 1) * (context.rank + 1)) for rank in range(context.size)])
    function = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    function(received, rows, group=context.group)
    expect("sum", received, (context.rank + 1) * context.total)


def all_to_all(context: CaseContext) -> None:
    received = context.rows()
    dist.all_to_all(received, [context.full(_pair(context, to)) for to in range(context.size)], group=context.group)
    _expect_pairs(context, received)


def all_to_all_single(context: CaseContext) -> None:
    received = context.full(0, length=LENGTH * context.size)
    dist.all_to_all_single(
        received, torch.cat([context.full(_pair(context, to)) for to in range(context.size)]), group=context.group
    )
    _expect_pairs(context, list(received.chunk(context.size)))


def all_to_all_single_uneven(context: CaseContext) -> None:
    """Rank r sends s + 1 elements to rank s, so it receives r + 1 from each."""
    sizes = [to + 1 for to in range(context.size)]
    sent = torch.cat([context.full(_pair(context, to), length=to + 1) for to in range(context.size)])
    received = context.full(0, length=(context.rank + 1) * context.size)
    dist.all_to_all_single(received, sent, [context.rank + 1] * context.size, sizes, group=context.group)
    _expect_pairs(context, list(received.chunk(context.size)))


def barrier(context: CaseContext) -> None:
    dist.barrier(group=context.group)


def monitored_barrier(context: CaseContext) -> None:
    dist.monitored_barrier(group=context.group)


def object_collectives(context: CaseContext) -> None:
    gathered: list[Any] = [None] * context.size
    dist.all_gather_object(gathered, {"rank": context.rank}, group=context.group)
    sent: list[Any] = [f"from {context.rank}"]
    dist.broadcast_object_list(sent, src=context.size - 1, group=context.group)
    if gathered != [{"rank": rank} for rank in range(context.size)] or sent != [f"from {context.size - 1}"]:
        raise WrongValueError(f"objects: {gathered}, {sent}")


def _pair(context: CaseContext, to: int) -> int:
    return context.rank * context.size + to + 1


def _expect_pairs(context: CaseContext, received: list[Tensor]) -> None:
    for source, tensor in enumerate(received):
        expect(f"from rank {source}", tensor, source * context.size + context.rank + 1)


def _expect_ranks(what: str, rows: list[Tensor]) -> None:
    for rank, tensor in enumerate(rows):
        expect(f"{what} from rank {rank}", tensor, rank + 1)


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable[[CaseContext], None]
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
