"""From one global batch to gradients that are equal on all ranks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from trainer.world import World


@dataclass(frozen=True)
class Batch:
    """This rank's share of a global batch, and how many samples the whole of it has."""

    images: Tensor
    labels: Tensor
    global_count: int


def loss_sum(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy, summed; computed in the type of the parameters even under autocast."""
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    return functional.cross_entropy(logits, labels, reduction="sum")


def backward(
    forward: Callable[[Tensor], Tensor],
    ddp: DistributedDataParallel,
    batch: Batch,
    world: World,
    *,
    accumulate: int,
    bf16: bool,
) -> Tensor:
    """Leave in every parameter the gradient of the mean loss over the global batch; return the local sum.

    DDP divides the sum of the ranks' gradients by the world size. With mean losses that is only right when
    all shares are equal: 64 samples on 3 ranks are 22, 21 and 21, and the mean of means is off by 1e-2
    after 40 steps. Scaling the local SUM by world_size / global_count makes it the exact global mean for
    any shares, empty ones too.
    """
    scale = world.world_size / batch.global_count
    total = torch.zeros((), dtype=torch.float64, device=batch.images.device)
    # tensor_split, unlike chunk, always gives `accumulate` parts: all ranks must exchange equally often
    parts = zip(batch.images.tensor_split(accumulate), batch.labels.tensor_split(accumulate), strict=True)
    for number, (images, labels) in enumerate(parts, start=1):
        is_last = number == accumulate
        exchange: AbstractContextManager[None] = nullcontext() if is_last else ddp.no_sync()
        with exchange:
            with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bf16):
                logits = forward(images)
            loss = loss_sum(logits, labels)
            torch.autograd.backward(loss * scale)
        total += loss.detach()
    return total
