"""Rendezvous through an explicit store that is built from the environment: python -m trainer store.

DDP_PLAY_STORE is tcp://HOST:PORT (rank 0 runs the server) or file:///PATH (a new file that all ranks can
access). Without it, MASTER_ADDR and MASTER_PORT are the address of a TCPStore.
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
from trainer.output_files import write_json
from trainer.world import Rendezvous, joined, parse_rendezvous, sum_over_ranks


def store_url(env: Mapping[str, str]) -> SplitResult:
    """URL of the store from DDP_PLAY_STORE, or from MASTER_ADDR and MASTER_PORT; TrainerError if it is not usable."""
    default = f"tcp://{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"
    text = env.get("DDP_PLAY_STORE") or default
    url = urlsplit(text)
    try:
        usable = (url.scheme == "file" and url.path) or (url.scheme == "tcp" and url.hostname and url.port)
    except ValueError:  # the port is no number
        usable = False
    if not usable:
        raise TrainerError(f"the store {text!r} is neither tcp://HOST:PORT nor file:///PATH (set DDP_PLAY_STORE)")
    return url


def build_store(rank: int, world_size: int, timeout: timedelta, env: Mapping[str, str] = os.environ) -> Store:
    """The store for init_process_group(store=...), in three lines that any training script can contain."""
    url = store_url(env)
    if url.scheme == "file":
        return FileStore(url.path, world_size)
    return TCPStore(url.hostname or "", url.port or 0, world_size, rank == 0, timeout)


def explicit_store(rendezvous: Rendezvous, env: Mapping[str, str] = os.environ) -> Store | None:
    """The store of `--init-method store`; None for other init methods, which build their own."""
    if rendezvous.init_method != "store":
        return None
    return build_store(rendezvous.rank, rendezvous.world_size, timedelta(seconds=rendezvous.timeout_s), env)


def run(args: argparse.Namespace) -> int:
    """Join through the store, exchange one key per rank, and check an all_reduce; TrainerError if its sum is wrong."""
    args.init_method = "store"
    rendezvous = parse_rendezvous(args)
    store = explicit_store(rendezvous)
    if store is None:
        raise TrainerError("the store is missing: set RANK, WORLD_SIZE and DDP_PLAY_STORE")
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
