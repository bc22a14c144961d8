"""`ddp-play run train.yml -i inventory`: all ranks join a process group and add up their numbers."""

import os

import torch
import torch.distributed as dist


def main() -> None:
    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if use_gpu else "gloo")
    total = torch.tensor([float(dist.get_rank())], device=device)
    dist.all_reduce(total)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the sum is {total.item():.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
