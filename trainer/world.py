"""Rendezvous of the ranks: arguments or environment -> Rendezvous -> World, the joined process group."""

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore, Store  # type: ignore[attr-defined]  # public, but missing in __all__

from trainer.errors import TrainerError

SCHEMES = ("env://", "tcp://", "file://", "store")
# Time for gloo's threads to let go of their last work, which takes Python's lock: a thread that asks for the lock while
# Python ends (before 3.14) makes torch abort the process (SIGABRT, exit code 134).
SETTLE_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """Parameters of the rendezvous, from arguments or environment."""

    rank: int
    world_size: int
    init_method: str
    backend: str  # auto, a backend of torch.distributed, or several by device: "cpu:gloo,cuda:nccl"
    timeout_s: float  # of the rendezvous and of every collective
    local_rank: int | None = None
    device: str = "auto"  # auto | cpu | cuda
    high_priority: bool = False  # nccl on CUDA streams of high priority
    single_process: bool = False  # one rank without MASTER_ADDR and MASTER_PORT: an in-memory store is enough


@dataclass(frozen=True, kw_only=True)
class World:
    """This rank's place in the joined process group, and its device."""

    rank: int
    world_size: int
    backend: str
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0


def add_world_arguments(parser: argparse.ArgumentParser, env: Mapping[str, str] = os.environ) -> None:
    """Add --rank, --world-size, --init-method and the rest; their defaults come from the launcher's environment."""
    group = parser.add_argument_group("world (default: from the environment)")
    group.add_argument("--rank", type=int, default=env.get("RANK"), metavar="N", help="RANK")
    group.add_argument("--world-size", type=int, default=env.get("WORLD_SIZE"), metavar="N", help="WORLD_SIZE")
    group.add_argument(
        "--local-rank", type=int, default=env.get("LOCAL_RANK"), metavar="N", help="LOCAL_RANK, the index of the GPU"
    )
    group.add_argument(
        "--init-method",
        default="env://",
        metavar="URL",
        help="env:// tcp://HOST:PORT file:///PATH, or store (see `store --help`)",
    )
    group.add_argument("--backend", default="auto", help="auto: nccl with CUDA, else gloo; or mpi, ...")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda for nccl")
    group.add_argument(
        "--timeout",
        type=float,
        default=env.get("DDP_PLAY_TIMEOUT") or 300.0,
        metavar="S",
        help="of the rendezvous and of every collective: DDP_PLAY_TIMEOUT, else 300",
    )
    group.add_argument("--high-priority", action="store_true", help="nccl on CUDA streams of high priority")


def parse_rendezvous(args: argparse.Namespace, env: Mapping[str, str] = os.environ) -> Rendezvous:
    """The rendezvous parameters of a parsed command line; TrainerError if they are incomplete or contradictory."""
    rank, world_size = args.rank, args.world_size
    if (rank is None) != (world_size is None):
        missing, given = (
            ("--rank (or RANK)", "world size") if rank is None else ("--world-size (or WORLD_SIZE)", "rank")
        )
        raise TrainerError(f"{missing} is missing, although the {given} is set: give both or none")
    rank, world_size = rank or 0, 1 if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise TrainerError(f"rank {rank} does not exist in a world of {world_size}: ranks are 0 to {world_size - 1}")
    if not args.init_method.startswith(SCHEMES):
        raise TrainerError(f"--init-method {args.init_method!r} is none of {', '.join(SCHEMES)}")
    if args.timeout <= 0:
        raise TrainerError(f"--timeout must be above 0 seconds, not {args.timeout}")
    missing_env = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not env.get(name)]
    by_env = args.init_method.startswith("env://")
    if by_env and missing_env and world_size > 1:
        raise TrainerError(f"--init-method env:// needs {' and '.join(missing_env)} in the environment of every rank")
    return Rendezvous(
        rank=rank,
        world_size=world_size,
        init_method=args.init_method,
        backend=args.backend,
        timeout_s=args.timeout,
        local_rank=args.local_rank,
        device=args.device,
        high_priority=args.high_priority,
        single_process=by_env and bool(missing_env),
    )


def choose_backend(name: str, *, cuda: bool) -> str:
    """Resolve `auto`; TrainerError for nccl without CUDA."""
    if name == "auto":
        return "nccl" if cuda else "gloo"
    if "nccl" in name and not cuda:
        raise TrainerError(f"--backend {name} needs a CUDA device and a torch build with CUDA: use gloo on CPU")
    return name


def choose_device(
    backend: str, *, rank: int, local_rank: int | None, num_gpus: int, device: str = "auto"
) -> torch.device:
    """The device for tensors: nccl needs a GPU, gloo uses the CPU unless `device` is cuda.

    The local rank is the GPU index. TrainerError if the host has no such GPU.
    """
    needs_gpu = "nccl" in backend
    if device == "cpu" and backend == "nccl":
        raise TrainerError("--backend nccl cannot work on --device cpu")
    if device == "cpu" or (device == "auto" and not needs_gpu):
        return torch.device("cpu")
    index = local_rank if local_rank is not None else rank % max(1, num_gpus)
    if index >= num_gpus:
        raise TrainerError(f"local rank {index} has no GPU of its own: this host shows {num_gpus}")
    return torch.device("cuda", index)


def group_options(backend: str, *, high_priority: bool) -> Any:
    """The pg_options of init_process_group, None for the defaults; TrainerError for options that need nccl."""
    if not high_priority:
        return None
    if backend != "nccl":
        raise TrainerError(f"--high-priority needs --backend nccl: {backend} has no CUDA streams of its own")
    return dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)


@contextmanager
def joined(rendezvous: Rendezvous, store: Store | None = None) -> Iterator[World]:
    """Join the process group and destroy it at the end of the block.

    After an exception it is not destroyed: the rank ends at once, and its peers see the closed connections.
    """
    backend = choose_backend(rendezvous.backend, cuda=torch.cuda.is_available() and rendezvous.device != "cpu")
    device = choose_device(
        backend,
        rank=rendezvous.rank,
        local_rank=rendezvous.local_rank,
        num_gpus=torch.cuda.device_count(),
        device=rendezvous.device,
    )
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=rendezvous.timeout_s)
    if backend == "mpi":
        join_by_mpi(rendezvous, timeout)
        yield World(rank=dist.get_rank(), world_size=dist.get_world_size(), backend=backend, device=device)
        dist.destroy_process_group()
        return
    if rendezvous.single_process:
        store = HashStore()
    dist.init_process_group(
        backend,
        init_method=None if store else rendezvous.init_method,
        store=store,
        rank=rendezvous.rank,
        world_size=rendezvous.world_size,
        timeout=timeout,
        pg_options=group_options(backend, high_priority=rendezvous.high_priority),
        # With a device, nccl connects now: a wrong interface fails here and not in the first step.
        device_id=device if on_gpu and "nccl" in backend else None,
    )
    yield World(rank=dist.get_rank(), world_size=dist.get_world_size(), backend=backend, device=device)
    dist.destroy_process_group()
    if "gloo" in backend:
        time.sleep(SETTLE_S)


def join_by_mpi(rendezvous: Rendezvous, timeout: timedelta) -> None:
    """Join with the rank and world size of MPI, by torch's own MPI backend or by mpi_backend.

    TrainerError without mpi4py, or if MPI and the launcher disagree about the rank.
    """
    try:
        from trainer import mpi_backend  # noqa: PLC0415  # the import of mpi4py starts MPI
    except ImportError as error:
        raise TrainerError(
            f"--backend mpi needs mpi4py and an MPI library: pip install mpi4py mpich ({error})"
        ) from None
    dist.init_process_group(mpi_backend.NAME, timeout=timeout, **mpi_backend.world())
    if (dist.get_rank(), dist.get_world_size()) != (rendezvous.rank, rendezvous.world_size):
        raise TrainerError(
            f"rank {dist.get_rank()} of {dist.get_world_size()} in MPI, but "
            f"{rendezvous.rank} of {rendezvous.world_size} from the launcher: is PMI_PORT set in every rank?"
        )


def require_agreement(world: World, values: Mapping[str, int]) -> None:
    """Raise TrainerError on every rank unless each named value (absolute value below 2^62) is equal on all ranks."""
    names = sorted(values)
    mine = torch.tensor([values[name] for name in names], dtype=torch.int64, device=world.device)
    # max(x) and max(-x) = -min(x) with one collective
    extremes = torch.cat([mine, -mine])
    dist.all_reduce(extremes, op=dist.ReduceOp.MAX)
    highest, lowest = extremes[: len(names)], -extremes[len(names) :]
    different = [name for name, same in zip(names, (highest == lowest).tolist(), strict=True) if not same]
    if different:
        raise TrainerError(f"the ranks do not have the same {' and '.join(different)}")


def sum_over_ranks(world: World, values: Sequence[float]) -> list[float]:
    """Sum each value over all ranks in float64, with one collective."""
    total = torch.tensor(values, dtype=torch.float64, device=world.device)
    dist.all_reduce(total)
    return [float(value) for value in total.tolist()]


def broadcast_bytes(world: World, content: bytes) -> bytes:
    """The bytes of rank 0 on every rank; `content` of the other ranks is ignored."""
    size = torch.tensor([len(content)], dtype=torch.int64, device=world.device)
    dist.broadcast(size, src=0)
    if world.is_first:
        buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(world.device)
    else:
        buffer = torch.empty(int(size.item()), dtype=torch.uint8, device=world.device)
    dist.broadcast(buffer, src=0)
    return buffer.cpu().numpy().tobytes()
