"""Payload of the launch benchmark, inside every rank: nothing, or one all-reduce of one element.

Rank 0 prints `payload-done` and the time, every other rank `rank-done` and the time.
"""

from __future__ import annotations

import os
import sys
import time


def work(kind: str) -> float:
    """Do the work and return the time of its end; all hosts of a lab share one clock.

    The process group may exist already: some launchers create it.
    """
    if kind == "noop":
        return time.time()
    import torch  # noqa: PLC0415 - noop must not include the time of this import
    import torch.distributed as dist  # noqa: PLC0415

    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    if int(total.item()) != dist.get_world_size():
        sys.exit(f"all-reduce gave {total.item()}")
    done = time.time()
    # without the barrier and destroy_process_group, the first rank to exit makes gloo threads of its peers abort
    dist.barrier()
    if ours:
        dist.destroy_process_group()
    return done


if __name__ == "__main__":
    moment = work(sys.argv[1])
    print("payload-done" if os.environ["RANK"] == "0" else "rank-done", moment, flush=True)
