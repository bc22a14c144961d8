"""Collectives that `allreduce` measures: buffers of a given size, the call, and the expected values."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.world import World

PERIOD = 8  # values repeat, so sums are small integers that float32 represents exactly


@dataclass(frozen=True)
class PreparedCall:
    """A collective with buffers that are filled for one call whose values are checked."""

    num_bytes: int  # the size as nccl-tests defines it: the largest buffer of a rank
    call: Callable[[], None]
    input: Tensor
    output: Tensor
    expected: Callable[[], Tensor | None]  # None: the output of this rank is undefined

    def num_wrong(self) -> int:
        """Number of output elements on this rank that differ from the expected values."""
        expected = self.expected()
        return 0 if expected is None else int((self.output != expected).sum())

    def clear(self) -> None:
        """Fill the input with zeros."""
        self.input.zero_()


@dataclass(frozen=True)
class TimedCollective:
    """A collective to measure; `bus_factor` maps the world size to busbw / algbw, as nccl-tests defines it."""

    name: str
    prepare: Callable[[World, int], PreparedCall]  # world, number of elements
    bus_factor: Callable[[int], float]


def pattern(count: int, rank: int, world: World) -> Tensor:
    """Input of a rank, float32 [count]: 0 1 2 ... 7 0 1 ..., plus the rank."""
    return (torch.arange(count, device=world.device) % PERIOD + rank).to(torch.float32)


def pattern_sum(count: int, world: World) -> Tensor:
    """The sum of the patterns of all ranks."""
    n = world.world_size
    return pattern(count, 0, world) * n + n * (n - 1) / 2


def round_to_world_size(count: int, world: World) -> int:
    """`count` rounded down to a multiple of the world size, at least one element per rank."""
    return max(1, count // world.world_size) * world.world_size


def all_reduce(world: World, count: int) -> PreparedCall:
    """In place, of `count` elements."""
    data = pattern(count, world.rank, world)
    return PreparedCall(
        count * 4, lambda: _discard(dist.all_reduce(data)), data, data, lambda: pattern_sum(count, world)
    )


def broadcast(world: World, count: int) -> PreparedCall:
    """From rank 0, of `count` elements."""
    data = pattern(count, world.rank, world)
    return PreparedCall(
        count * 4, lambda: _discard(dist.broadcast(data, 0)), data, data, lambda: pattern(count, 0, world)
    )


def reduce(world: World, count: int) -> PreparedCall:
    """To rank 0, in place, of `count` elements."""
    data = pattern(count, world.rank, world)

    def expected() -> Tensor | None:
        return pattern_sum(count, world) if world.is_first else None

    return PreparedCall(count * 4, lambda: _discard(dist.reduce(data, 0)), data, data, expected)


def all_gather(world: World, count: int) -> PreparedCall:
    """Into `count` elements, equal parts per rank."""
    count = round_to_world_size(count, world)
    share = count // world.world_size
    data, gathered = pattern(share, world.rank, world), torch.zeros(count, device=world.device)
    function = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

    def expected() -> Tensor:
        return torch.cat([pattern(share, rank, world) for rank in range(world.world_size)])

    return PreparedCall(count * 4, lambda: _discard(function(gathered, data)), data, gathered, expected)


def reduce_scatter(world: World, count: int) -> PreparedCall:
    """Of `count` elements, equal parts per rank."""
    count = round_to_world_size(count, world)
    data = pattern(count, world.rank, world)
    received = torch.zeros(count // world.world_size, device=world.device)
    function = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def expected() -> Tensor:
        return pattern_sum(count, world).chunk(world.world_size)[world.rank]

    return PreparedCall(count * 4, lambda: _discard(function(received, data)), data, received, expected)


def all_to_all(world: World, count: int) -> PreparedCall:
    """Of `count` elements, equal parts per rank."""
    count = round_to_world_size(count, world)
    data, received = pattern(count, world.rank, world), torch.zeros(count, device=world.device)

    def expected() -> Tensor:
        n = world.world_size
        return torch.cat([pattern(count, rank, world).chunk(n)[world.rank] for rank in range(n)])

    return PreparedCall(count * 4, lambda: _discard(dist.all_to_all_single(received, data)), data, received, expected)


def _discard(_: object) -> None:
    """Ignore the return value of a blocking collective."""


TIMED_COLLECTIVES = {
    operation.name: operation
    for operation in (
        TimedCollective("all_reduce", all_reduce, lambda n: 2 * (n - 1) / n),
        TimedCollective("all_gather", all_gather, lambda n: (n - 1) / n),
        TimedCollective("reduce_scatter", reduce_scatter, lambda n: (n - 1) / n),
        TimedCollective("all_to_all", all_to_all, lambda n: (n - 1) / n),
        TimedCollective("broadcast", broadcast, lambda _: 1.0),
        TimedCollective("reduce", reduce, lambda _: 1.0),
    )
}
