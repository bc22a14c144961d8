"""Training on unequal inputs with torch's Join: ranks without batches shadow the collectives of the others.

Without --uneven every global batch is divided evenly, so all ranks have the same number of steps. If every host
has files of its own, the numbers differ. Without Join the ranks with more batches would then wait for the others
until the timeout.
"""

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from trainer.errors import TrainerError
from trainer.gradients import loss_sum
from trainer.training_report import add_to_totals
from trainer.training_state import TrainingRun, save, seed_step
from trainer.world import sum_over_ranks


def share(size: int, rank: int, world_size: int) -> range:
    """Positions of a rank's samples among `size`: shares are in the ratio 1 : 2 : 3 ..., the last rank has most."""
    parts = world_size * (world_size + 1) // 2
    return range(size * (rank * (rank + 1) // 2) // parts, size * ((rank + 1) * (rank + 2) // 2) // parts)


def local_batches(size: int, batch: int, rank: int, world_size: int) -> Sequence[range]:
    """Positions of a rank's samples, in batches of `batch`; the last batch may be smaller."""
    mine = share(size, rank, world_size)
    return [mine[start : start + batch] for start in range(0, len(mine), batch)]


def train_epoch(run: TrainingRun) -> bool:
    """Train one epoch with a different number of steps on every rank; True if a stop was requested."""
    options, world, progress = run.options, run.world, run.progress
    size = len(run.data.train)
    batch = max(1, options.batch_size // world.world_size)
    batches = local_batches(size, batch, world.rank, world.world_size)
    started = time.monotonic()
    local_loss = train_batches(run, batches)
    broadcast_momentum(run, source=world.world_size - 1)
    num_samples = sum(len(positions) for positions in batches)
    totals = sum_over_ranks(world, [local_loss, num_samples, float(run.stop.requested)])
    progress.step += len(local_batches(size, batch, world.world_size - 1, world.world_size))
    progress.epoch += 1
    progress.train_loss = totals[0] / totals[1]
    add_to_totals(run, local_loss, num_samples, int(totals[1]), time.monotonic() - started)
    save(run)
    return totals[2] > 0


def train_batches(run: TrainingRun, batches: Sequence[range]) -> float:
    """Train on this rank's batches under Join; returns the sum of their losses."""
    seed, epoch, device = run.options.seed, run.progress.epoch, run.world.device
    images, labels = run.data.train.tensors
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed + epoch))
    total = 0.0
    with Join([as_ddp(run.model)]):
        for number, positions in enumerate(batches):
            seed_step(seed, run.progress.step + number, run.world.rank)
            chosen = order[positions.start : positions.stop]
            run.optimizer.zero_grad()
            loss = loss_sum(run.forward(images[chosen].to(device)), labels[chosen].to(device))
            torch.autograd.backward(loss / len(chosen))
            run.optimizer.step()
            total += float(loss.detach())
            time.sleep(run.options.sleep_per_step_s)
    return total


def as_ddp(model: nn.Module) -> DistributedDataParallel:
    """The model with the type that Join needs; TypeError if it is not wrapped."""
    if not isinstance(model, DistributedDataParallel):
        raise TypeError("Join needs DistributedDataParallel; TrainOptions should have refused --uneven without it")
    return model


def broadcast_momentum(run: TrainingRun, *, source: int) -> None:
    """Broadcast the momentum of rank `source`: Join broadcasts parameters only. TrainerError if a rank had no step."""
    for parameter in run.net.parameters():
        momentum = run.optimizer.state[parameter].get("momentum_buffer")
        if momentum is None:
            raise TrainerError("--uneven: a rank has no samples: use fewer ranks or more data")
        dist.broadcast(momentum, src=source)
