"""Metrics of one host's ranks together: a subgroup per host, reduced to its first rank."""

import platform
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainer.world import World


@dataclass(frozen=True)
class HostGroup:
    """The ranks that share this rank's host."""

    name: str
    ranks: tuple[int, ...]
    group: dist.ProcessGroup
    is_first: bool  # this rank receives what is reduced


def ranks_on_same_host(rank: int, hosts: Sequence[int]) -> tuple[int, ...]:
    """All ranks whose host is that of `rank`; `hosts` has one number per rank."""
    return tuple(other for other, host in enumerate(hosts) if host == hosts[rank])


def group_by_host(world: World, name: str | None = None) -> HostGroup:
    """Find out who shares this host and make a process group of them."""
    name = name or platform.node()
    mine = torch.tensor([zlib.crc32(name.encode())], dtype=torch.int64, device=world.device)
    everyone = [torch.empty_like(mine) for _ in range(world.world_size)]
    dist.all_gather(everyone, mine)
    ranks = ranks_on_same_host(world.rank, [int(host.item()) for host in everyone])
    # Only the members take part; otherwise every rank would have to create the groups of all hosts.
    group = dist.new_group(list(ranks), use_local_synchronization=True)
    return HostGroup(name=name, ranks=ranks, group=group, is_first=world.rank == ranks[0])


def sum_over_host(host: HostGroup, world: World, values: Sequence[float]) -> list[float] | None:
    """Add each value over the host's ranks; only its first rank gets the sums."""
    total = torch.tensor(values, dtype=torch.float64, device=world.device)
    dist.reduce(total, dst=host.ranks[0], group=host.group)
    return [float(value) for value in total.tolist()] if host.is_first else None
