"""python -m trainer store: ranks that meet in an explicit store, built from the environment in three lines.

DDP_PLAY_STORE is tcp://HOST:PORT (rank 0 hosts it) or file:///PATH (a fresh path that all ranks see). Without
it, MASTER_ADDR and MASTER_PORT name a TCP store.
"""

import argparse
import os
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import SplitResult, urlsplit

from torch.distributed import (  # type: ignore[attr-defined]  # public, but missing in __all__
    FileStore,
    Store,
    TCPStore,
)

from trainer.errors import TrainerError
from trainer.records import write_json
from trainer.world import Rendezvous, joined, parse_rendezvous, sum_over_ranks


def store_url(env: Mapping[str, str]) -> SplitResult:
    """Where the store is, checked."""
    default = f"tcp://{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"
    text = env.get("DDP_PLAY_STORE") or default
    url = urlsplit(text)
    try:
        usable = (url.scheme == "file" and url.path) or (url.scheme == "tcp" and url.hostname and url.port)
    except ValueError:  # a port that is no number
        usable = False
    if not usable:
        raise TrainerError(f"the store {text!r} is neither tcp://HOST:PORT nor file:///PATH (set DDP_PLAY_STORE)")
    return url


def build_store(rank: int, world_size: int, timeout: timedelta, env: Mapping[str, str] = os.environ) -> Store:
    """What a script of its own writes in three lines; pass it to init_process_group(store=...)."""
    url = store_url(env)
    if url.scheme == "file":
        return FileStore(url.path, world_size)
    return TCPStore(url.hostname or "", url.port or 0, world_size, rank == 0, timeout)


def explicit_store(rendezvous: Rendezvous, env: Mapping[str, str] = os.environ) -> Store | None:
    """The store of `--init-method store`; None for every other way to meet."""
    if rendezvous.init_method != "store":
        return None
    return build_store(rendezvous.rank, rendezvous.world_size, timedelta(seconds=rendezvous.timeout_s), env)


def run(args: argparse.Namespace) -> int:
    """Meet in the store, leave each other something in it, and sum over the ranks to see that it works."""
    args.init_method = "store"
    rendezvous = parse_rendezvous(args)
    store = explicit_store(rendezvous)
    if store is None:
        raise TrainerError("one rank alone has nobody to meet: set RANK, WORLD_SIZE and DDP_PLAY_STORE")
    with joined(rendezvous, store) as world:
        store.set(f"greeting/{world.rank}", f"rank {world.rank} was here")
        greetings = [store.get(f"greeting/{rank}").decode() for rank in range(world.world_size)]
        count, total = sum_over_ranks(world, [1.0, world.rank])
        expected = world.world_size * (world.world_size - 1) / 2
        if (count, total) != (world.world_size, expected):
            raise TrainerError(f"all_reduce gave {total} over {count:g} ranks, expected {expected}")
        if world.is_first:
            print(f"{type(store).__name__}: {'; '.join(greetings)}; the ranks add up to {total:g}", flush=True)
        if args.result:
            values = {"status": "finished", "rank": world.rank, "world_size": world.world_size}
            write_json(args.result, {**values, "store": type(store).__name__, "greetings": greetings})
    return 0
