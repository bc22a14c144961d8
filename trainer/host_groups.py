"""Process group of the ranks on one host, for metrics per host; its first rank receives the sums."""

import platform
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainer.world import World


@dataclass(frozen=True)
class HostGroup:
    """The ranks on this rank's host, in ascending order."""

    name: str
    ranks: tuple[int, ...]
    group: dist.ProcessGroup
    is_first: bool  # whether this rank is the first one and receives the sums


def ranks_on_same_host(rank: int, hosts: Sequence[int]) -> tuple[int, ...]:
    """All ranks on the host of `rank`, itself too; `hosts` holds one number per rank that identifies its host."""
    return tuple(other for other, host in enumerate(hosts) if host == hosts[rank])


def group_by_host(world: World, name: str | None = None) -> HostGroup:
    """Create the process group of the ranks on this host; collective. `name` replaces the host name in tests."""
    name = name or platform.node()
    mine = torch.tensor([zlib.crc32(name.encode())], dtype=torch.int64, device=world.device)
    everyone = [torch.empty_like(mine) for _ in range(world.world_size)]
    dist.all_gather(everyone, mine)
    ranks = ranks_on_same_host(world.rank, [int(host.item()) for host in everyone])
    # With local synchronization only the members create a group; otherwise every rank must create all groups.
    group = dist.new_group(list(ranks), use_local_synchronization=True)
    return HostGroup(name=name, ranks=ranks, group=group, is_first=world.rank == ranks[0])


def sum_over_host(host: HostGroup, world: World, values: Sequence[float]) -> list[float] | None:
    """Sum each value over the ranks of the host; None on all ranks but the first one."""
    total = torch.tensor(values, dtype=torch.float64, device=world.device)
    dist.reduce(total, dst=host.ranks[0], group=host.group)
    return [float(value) for value in total.tolist()] if host.is_first else None
