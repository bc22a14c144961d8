"""What a rank of these tests does on its GPU: python rank.py WHAT [SECONDS]."""

import os
import sys
import time

import torch

GIB = 1 << 30
CLOCK_HZ = 1.98e9  # of the fastest GPU that is known here: a slower one spins longer
gpu = torch.device("cuda", 0)


def busy(seconds: float) -> None:
    """Multiply matrices all the time, with 4 GiB of memory."""
    kept = torch.zeros(4 * GIB, dtype=torch.uint8, device=gpu)
    one = torch.randn(4096, 4096, device=gpu, dtype=torch.bfloat16)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(50):
            one @ one
        torch.cuda.synchronize()
    sys.stdout.write(f"done with {kept.numel()} bytes kept\n")


def spin(seconds: float) -> None:
    """One operation that takes so long that nobody waits for it."""
    sys.stdout.write("spinning\n")
    torch.cuda._sleep(int(CLOCK_HZ * seconds))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()


def too_much(_seconds: float) -> None:
    """More memory than any GPU has."""
    torch.empty(2048 * GIB, dtype=torch.uint8, device=gpu)


def out_of_range(_seconds: float) -> None:
    """An index that the GPU checks."""
    torch.arange(10, device=gpu)[torch.tensor([100], device=gpu)]
    torch.cuda.synchronize()


def out_of_range_once(seconds: float) -> None:
    """The same in the first attempt; the second one works, on a GPU that the first has left."""
    if os.environ["DDP_PLAY_ATTEMPT"] == "1":
        out_of_range(seconds)
    busy(seconds)


def same_gpu(_seconds: float) -> None:
    """All ranks on GPU 0 with NCCL, against the plan."""
    torch.distributed.init_process_group("nccl")
    torch.distributed.all_reduce(torch.ones(4, device=gpu))


if __name__ == "__main__":
    {each.__name__: each for each in (busy, spin, too_much, out_of_range, out_of_range_once, same_gpu)}[sys.argv[1]](
        float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    )
