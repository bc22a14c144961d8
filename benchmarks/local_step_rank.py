"""Rank of benchmarks/local_steps.py: DDP steps of a small network, and on rank 0 their mean time, as JSON in a file.

It prints a line for each step, as trainers do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main(result: Path, num_warm_up: int, num_steps: int, width: int) -> None:
    """Train and write `{"step_s": seconds, "backend": name}`."""
    torch.set_num_threads(1)
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    layers = (torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(64, width, device=device)
    started = time.perf_counter()
    for step in range(num_warm_up + num_steps):
        if step == num_warm_up:
            dist.barrier()
            started = time.perf_counter()
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)  # the value waits for the GPU
    step_s = (time.perf_counter() - started) / num_steps
    if dist.get_rank() == 0:
        result.write_text(json.dumps({"step_s": step_s, "backend": dist.get_backend()}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:]))
