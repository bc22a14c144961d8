"""What every rank does in the launch benchmark: nothing, or one all-reduce of one element. Runs inside the ranks."""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    """Rank 0 says when the work was done, on the clock all hosts of a lab share."""
    if sys.argv[1] == "allreduce":
        import torch  # noqa: PLC0415 - the payload without it must not pay for it
        import torch.distributed as dist  # noqa: PLC0415

        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        if int(total.item()) != dist.get_world_size():
            sys.exit(f"all-reduce gave {total.item()}")
    if os.environ["RANK"] == "0":
        print("payload-done", time.time(), flush=True)
    if sys.argv[1] == "allreduce":
        # without these a rank that leaves first makes its peers' gloo threads abort
        dist.barrier()
        dist.destroy_process_group()


main()
