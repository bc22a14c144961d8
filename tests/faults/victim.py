"""What the fault rows run in every rank: a small DDP training that misbehaves where and when it is told to.

    python victim.py --steps 200 --fault exit --at-rank 3 --at-step 20

It prints a line a step, and `FAULT <epoch seconds>` just before it misbehaves.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
# gloo's threads let go of their last work; while Python ends, that would abort (exit code 134).
LET_GO_S = 0.2
END = Path(__file__).absolute().with_name("end")


def announce() -> None:
    """The moment of the fault, for the measurement."""
    print(f"FAULT {time.time():.3f}", flush=True)


def leave() -> None:
    """Exit code 3, without a word."""
    time.sleep(LET_GO_S)
    announce()
    sys.exit(3)


def fail() -> None:
    """An exception that nobody catches."""
    time.sleep(LET_GO_S)
    announce()
    raise ValueError("loss is nan")


def crash() -> None:
    """A segmentation fault."""
    announce()
    ctypes.string_at(0)


def leave_slowly() -> None:
    """Its connections are gone at once, its own words come after a second, and its process ends after another."""
    announce()
    # Closed by exec, which ends gloo's threads in the same step: they abort when their sockets are closed before.
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one of this listing
            os.set_inheritable(int(path.name), int(path.name) < 3)
    os.execv("/bin/sh", ["sh", "-c", "sleep 1; echo 'ValueError: loss is nan' >&2; sleep 0.8; exit 1"])


def load_batch() -> None:
    """Data loading that never comes to an end."""
    announce()
    while True:
        sum(range(1000))


def skip() -> None:
    """One collective less than the others: they hang in it, this one in the next."""
    announce()
    dist.barrier()


def eat() -> None:
    """More memory than there is."""
    announce()
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 16)


def print_much() -> None:
    """A hundred megabytes of lines."""
    for number in range(1 << 10):
        sys.stdout.write(f"{number:>99}\n" * (1 << 10))
    sys.stdout.flush()


def print_bytes() -> None:
    """Four megabytes of anything."""
    for _ in range(4):
        os.write(1, os.urandom(1 << 20))
    os.write(1, b"\n")


def print_long() -> None:
    """One line of ten megabytes."""
    sys.stdout.write("x" * (10 << 20) + "\n")
    sys.stdout.flush()


def print_until_full() -> None:
    """Until the disk that holds the log takes no more."""
    with contextlib.suppress(OSError):
        while True:
            os.write(1, b"x" * ((1 << 16) - 1) + b"\n")


FAULTS: dict[str, Callable[[], None]] = {
    "exit": leave,
    "raise": fail,
    "segv": crash,
    "slow": leave_slowly,
    "loop": load_batch,
    "skip": skip,
    "eat": eat,
    "much": print_much,
    "bytes": print_bytes,
    "long": print_long,
    "fill": print_until_full,
}


def save(model: torch.nn.Module, checkpoint: str) -> None:
    """A checkpoint of half a megabyte; an error of the file system is an OSError, which torch.save would hide."""
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "padding": torch.zeros(1 << 17)}, buffer)
    new = Path(f"{checkpoint}.new")
    new.write_bytes(buffer.getvalue())
    new.replace(checkpoint)


def train(steps: int, pause_s: float, checkpoint: str, misbehave: Callable[[int], None]) -> None:
    """`steps` steps of DDP on noise, or fewer when a file `end` appears next to this script."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        misbehave(step)
        inputs = torch.randn(32, 64)
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = torch.stack([loss.detach(), torch.tensor(float(END.exists()))])
        dist.all_reduce(total)
        if checkpoint and RANK == 0 and step % 5 == 0:
            save(model, checkpoint)
        with contextlib.suppress(OSError):  # a training that logs goes on when its log cannot be written
            os.write(1, f"rank {RANK} step {step} loss {total[0].item():.6f}\n".encode())
        if total[1].item():
            break
        time.sleep(pause_s)


def main() -> None:
    """Meet, train, part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--fault", choices=["", *FAULTS], default="")
    parser.add_argument("--at-rank", type=int, default=-1)
    parser.add_argument("--at-step", type=int, default=20)
    parser.add_argument("--at-signal", action="store_true", help="the fault begins at SIGUSR1 instead")
    parser.add_argument("--checkpoint", default="", help="rank 0 writes here every five steps")
    parser.add_argument("--stubborn", action="store_true", help="SIGTERM is ignored")
    parser.add_argument("--stubborn-rank", type=int, default=-1, help="this rank ignores SIGTERM")
    parser.add_argument("--leave-mib", type=int, default=0, help="how large a file rank 0 leaves behind")
    args = parser.parse_args()
    if args.stubborn or args.stubborn_rank == RANK:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if args.at_signal:
        signal.signal(signal.SIGUSR1, lambda *_: FAULTS[args.fault]())
    checkpoint = str(Path(args.checkpoint).absolute()) if args.checkpoint else ""
    dist.init_process_group("gloo")

    def misbehave(step: int) -> None:
        if args.fault and args.at_rank == RANK and step == args.at_step:
            FAULTS[args.fault]()

    train(args.steps, args.pause, checkpoint, misbehave)
    dist.destroy_process_group()
    time.sleep(LET_GO_S)
    if args.leave_mib and RANK == 0:
        with Path("large.bin").open("wb") as left:
            for _ in range(args.leave_mib):
                left.write(os.urandom(1 << 20))


if __name__ == "__main__":
    main()
