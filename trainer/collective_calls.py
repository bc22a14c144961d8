"""Test cases for every collective: each calls one with known values and raises if the result differs."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

LENGTH = 1000  # elements per tensor: more than one packet, but fast


class WrongValueError(Exception):
    """A collective returned wrong values."""


@dataclass(frozen=True)
class CaseContext:
    """Rank, world and group of a case. Rank r contributes r + 1, so a sum over n ranks is n(n + 1) / 2."""

    rank: int
    size: int
    device: torch.device
    group: dist.ProcessGroup

    def full(self, value: float, dtype: torch.dtype = torch.float32, length: int = LENGTH) -> Tensor:
        """A one-dimensional tensor on the device of the case, with `value` in every element."""
        return torch.full((length,), value, dtype=dtype, device=self.device)

    @property
    def mine(self) -> Tensor:
        """This rank's contribution: LENGTH elements of rank + 1."""
        return self.full(self.rank + 1)

    def rows(self, width: int = LENGTH) -> list[Tensor]:
        """Output tensors of zeros, one of `width` elements for each rank."""
        return [self.full(0, length=width) for _ in range(self.size)]

    @property
    def total(self) -> int:
        """The sum of all ranks' contributions, per element."""
        return self.size * (self.size + 1) // 2


def expect(what: str, found: Tensor, value: float) -> None:
    """Raise WrongValueError unless every element equals `value`; `what` begins its text."""
    wrong = int((found != value).sum())
    if wrong:
        first = float(found[found != value].flatten()[0])
        raise WrongValueError(f"{what}: {wrong} of {found.numel()} elements are not {value}, the first is {first}")


def send_recv(context: CaseContext) -> None:
    """Blocking point-to-point messages around a ring."""
    left, right = (context.rank - 1) % context.size, (context.rank + 1) % context.size
    received = context.full(0)
    if context.rank == 0:  # one rank must send first, or all ranks of the ring block in recv
        dist.send(context.mine, right, group=context.group)
        dist.recv(received, left, group=context.group)
    else:
        dist.recv(received, left, group=context.group)
        dist.send(context.mine, right, group=context.group)
    expect("recv", received, left + 1)


def isend_irecv(context: CaseContext) -> None:
    """Non-blocking point-to-point messages around a ring."""
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
    """Rank 0 receives from any source until it has one message of every other rank."""
    if context.rank > 0:
        dist.send(context.mine, 0, group=context.group)
        return
    for _ in range(context.size - 1):
        received = context.full(0)
        source = dist.recv(received, None, group=context.group)
        expect("recv from any", received, source + 1)


def batch_isend_irecv(context: CaseContext) -> None:
    """A batch of one send and one receive, around a ring."""
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
    """All ranks receive the tensor of the last rank."""
    tensor = context.mine
    dist.broadcast(tensor, src=context.size - 1, group=context.group)
    expect("broadcast", tensor, context.size)


def all_reduce(context: CaseContext) -> None:
    """The sum in float32."""
    tensor = context.mine
    dist.all_reduce(tensor, group=context.group)
    expect("sum", tensor, context.total)


def all_reduce_max(context: CaseContext) -> None:
    """The maximum in float32."""
    tensor = context.mine
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=context.group)
    expect("max", tensor, context.size)


def all_reduce_avg(context: CaseContext) -> None:
    """The average in float32."""
    tensor = context.mine
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=context.group)
    expect("average", tensor, context.total / context.size)


def all_reduce_bf16(context: CaseContext) -> None:
    """The sum in bfloat16."""
    tensor = context.full(1, torch.bfloat16)  # bfloat16 represents integers exactly up to 256
    dist.all_reduce(tensor, group=context.group)
    expect("sum", tensor, context.size)


def all_reduce_coalesced(context: CaseContext) -> None:
    """Two tensors of different lengths in one call."""
    tensors = [context.mine, context.full(context.rank + 1, length=7)]
    dist.all_reduce_coalesced(tensors, group=context.group)
    for tensor in tensors:
        expect("sum", tensor, context.total)


def reduce(context: CaseContext) -> None:
    """The sum on the last rank; the tensors of the others are undefined afterwards."""
    tensor, destination = context.mine, context.size - 1
    dist.reduce(tensor, dst=destination, group=context.group)
    if context.rank == destination:
        expect("sum", tensor, context.total)


def all_gather(context: CaseContext) -> None:
    """Every rank receives a list of all tensors."""
    rows = context.rows()
    dist.all_gather(rows, context.mine, group=context.group)
    _expect_ranks("all_gather", rows)


def all_gather_single(context: CaseContext) -> None:
    """Every rank receives all tensors in one tensor."""
    gathered = context.full(0, length=LENGTH * context.size)
    # since torch 2.13 the name of all_gather_into_tensor
    function = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    function(gathered, context.mine, group=context.group)
    _expect_ranks("all_gather_single", list(gathered.chunk(context.size)))


def all_gather_coalesced(context: CaseContext) -> None:
    """Two tensors of different lengths from every rank in one call."""
    short = context.full(context.rank + 1, length=7)
    outputs = [[*pair] for pair in zip(context.rows(), context.rows(7), strict=True)]
    dist.all_gather_coalesced(outputs, [context.mine, short], group=context.group)
    for rank, pair in enumerate(outputs):
        for tensor in pair:
            expect(f"from rank {rank}", tensor, rank + 1)


def gather(context: CaseContext) -> None:
    """Rank 0 receives a list of all tensors."""
    rows = context.rows() if context.rank == 0 else None
    dist.gather(context.mine, rows, dst=0, group=context.group)
    _expect_ranks("gather", rows or [])


def scatter(context: CaseContext) -> None:
    """Rank 0 sends each rank a different tensor."""
    received = context.full(0)
    rows = [context.full(rank + 1) for rank in range(context.size)] if context.rank == 0 else None
    dist.scatter(received, rows, src=0, group=context.group)
    expect("scatter", received, context.rank + 1)


def reduce_scatter(context: CaseContext) -> None:
    """Rank r receives the sum of all ranks' r-th tensors."""
    received = context.full(0)
    rows = [context.full((rank + 1) * (context.rank + 1)) for rank in range(context.size)]
    dist.reduce_scatter(received, rows, group=context.group)
    expect("sum", received, (context.rank + 1) * context.total)


def reduce_scatter_single(context: CaseContext) -> None:
    """Rank r receives the sum of all ranks' r-th parts of one tensor."""
    received = context.full(0)
    rows = torch.cat([context.full((rank + 1) * (context.rank + 1)) for rank in range(context.size)])
    function = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    function(received, rows, group=context.group)
    expect("sum", received, (context.rank + 1) * context.total)


def all_to_all(context: CaseContext) -> None:
    """Every rank sends a different tensor to every rank, in lists."""
    received = context.rows()
    dist.all_to_all(received, [context.full(_pair(context, to)) for to in range(context.size)], group=context.group)
    _expect_pairs(context, received)


def all_to_all_single(context: CaseContext) -> None:
    """Every rank sends a different part of one tensor to every rank."""
    received = context.full(0, length=LENGTH * context.size)
    dist.all_to_all_single(
        received, torch.cat([context.full(_pair(context, to)) for to in range(context.size)]), group=context.group
    )
    _expect_pairs(context, list(received.chunk(context.size)))


def all_to_all_single_uneven(context: CaseContext) -> None:
    """Parts of different sizes: rank r sends s + 1 elements to rank s, so it receives r + 1 from each."""
    sizes = [to + 1 for to in range(context.size)]
    sent = torch.cat([context.full(_pair(context, to), length=to + 1) for to in range(context.size)])
    received = context.full(0, length=(context.rank + 1) * context.size)
    dist.all_to_all_single(received, sent, [context.rank + 1] * context.size, sizes, group=context.group)
    _expect_pairs(context, list(received.chunk(context.size)))


def barrier(context: CaseContext) -> None:
    """Returns on every rank; there is no value to check."""
    dist.barrier(group=context.group)


def monitored_barrier(context: CaseContext) -> None:
    """Barrier of gloo that names the missing rank; there is no value to check."""
    dist.monitored_barrier(group=context.group)


def object_collectives(context: CaseContext) -> None:
    """all_gather_object and broadcast_object_list with small Python objects."""
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
