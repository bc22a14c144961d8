"""What every rank does in the launch benchmark: nothing, or one all-reduce of one element. Runs inside the ranks."""

from __future__ import annotations

import os
import sys
import time


def work(kind: str) -> float:
    """When the work was done, on the clock all hosts of a lab share. A launcher may have made the group already."""
    if kind == "noop":
        return time.time()
    import torch  # noqa: PLC0415 - the payload without it must not pay for it
    import torch.distributed as dist  # noqa: PLC0415

    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    if int(total.item()) != dist.get_world_size():
        sys.exit(f"all-reduce gave {total.item()}")
    done = time.time()
    # without these a rank that leaves first makes its peers' gloo threads abort
    dist.barrier()
    if ours:
        dist.destroy_process_group()
    return done


if __name__ == "__main__":
    moment = work(sys.argv[1])
    if os.environ["RANK"] == "0":
        print("payload-done", moment, flush=True)
