"""`ddp-play run train.yml -i inventory`: all ranks train one model, with DistributedDataParallel."""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 200


def train(device: torch.device) -> nn.Module:
    """Fit a sine; every rank draws its own samples, and DDP averages the gradients."""
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(1, STEPS + 1):
        x = torch.rand(256, 1, device=device) * 6 - 3
        loss = nn.functional.mse_loss(model(x), torch.sin(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"rank {dist.get_rank()} of {dist.get_world_size()}: step {step} loss {loss.item():.4f}", flush=True)
    result_file = os.environ.get("DDP_PLAY_RESULT")  # set by ddp-play, not by exported scripts
    if dist.get_rank() == 0 and result_file:
        result = {"loss": loss.item(), "steps": STEPS}
        Path(result_file).write_text(json.dumps(result), encoding="utf-8")
    return model.module


def main() -> None:
    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo")
    model = train(device)
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")
    dist.barrier()  # no rank leaves while another one still works
    dist.destroy_process_group()
    time.sleep(0.2)  # gloo's threads let go of their last work; while Python ends, that would abort (exit code 134)


if __name__ == "__main__":
    main()
