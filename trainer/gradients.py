"""From one global batch to gradients that are equal on all ranks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
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
    model: nn.Module,
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
        with gradient_sync(model, now=is_last):
            with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bf16):
                logits = forward(images)
            loss = loss_sum(logits, labels)
            torch.autograd.backward(loss * scale)
        total += loss.detach()
    if not isinstance(model, DistributedDataParallel):
        average_gradients(model, world.world_size)
    return total


def gradient_sync(model: nn.Module, *, now: bool) -> AbstractContextManager[None]:
    """DDP exchanges gradients while they are computed, except under no_sync."""
    if now or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    no_sync: AbstractContextManager[None] = model.no_sync()
    return no_sync


def average_gradients(model: nn.Module, world_size: int) -> None:
    """What DDP does, written out: sum each gradient over the ranks, divide by their number.

    DDP does it in buckets of 25 MB and during the backward pass, which is why it is faster.
    """
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size


def broadcast_parameters(model: nn.Module) -> None:
    """Give all ranks the parameters of rank 0: averaging gradients keeps models equal, no more."""
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.detach(), src=0)
