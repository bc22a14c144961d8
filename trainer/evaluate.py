"""Loss and accuracy on the test set, with each sample counted once."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

from trainer.gradients import loss_sum
from trainer.world import World, sum_over_ranks

BATCH = 1000  # without gradients there is memory for larger batches than in training


@torch.no_grad()
def evaluate(model: nn.Module, data: TensorDataset, world: World) -> tuple[float, float]:
    """Mean loss and accuracy (0 to 1) over the test set, equal on all ranks.

    Rank r evaluates samples r, r + world_size, and so on. A DistributedSampler would repeat samples so that all
    shares are equal, and the mean of the ranks' accuracies would give unequal shares equal weight. Therefore
    losses, correct predictions and samples are summed over the ranks.
    """
    images, labels = (tensor[world.rank :: world.world_size] for tensor in data.tensors)
    loss, correct = 0.0, 0
    model.eval()
    for start in range(0, len(labels), BATCH):
        part = slice(start, start + BATCH)
        targets = labels[part].to(world.device)
        logits = model(images[part].to(world.device))
        loss += float(loss_sum(logits, targets))
        correct += int((logits.argmax(dim=1) == targets).sum())
    model.train()
    loss, hits, count = sum_over_ranks(world, [loss, correct, len(labels)])
    return loss / count, hits / count
