"""Samples of each rank in each step: global batches are slices of one permutation that all ranks share."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, DistributedSampler


class GlobalBatchSampler(DistributedSampler[list[int]]):
    """A DistributedSampler that yields this rank's share of each GLOBAL batch.

    Step k trains on permutation[k * B : (k + 1) * B] for every world size, and rank r takes every
    world_size-th sample of this slice, beginning at position r. DistributedSampler gives the same split if the
    world size divides both B and the size of the data set. Otherwise it repeats samples, and 2 and 3 ranks train
    on different batches. This sampler repeats and drops nothing. Shares therefore differ by up to one sample and
    may be empty in the last batch, so the loss must be scaled by the global count (see gradients.py).
    """

    def __init__(self, dataset: Dataset[Any], *, rank: int, world_size: int, batch_size: int, seed: int) -> None:
        super().__init__(dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=seed)
        self.size = len(dataset)  # type: ignore[arg-type]
        self.batch_size = batch_size
        self.first_step = 0  # number of steps of this epoch that a resumed training has already done

    def __iter__(self) -> Iterator[list[int]]:
        shared = torch.Generator().manual_seed(self.seed + self.epoch)
        permutation: list[int] = torch.randperm(self.size, generator=shared).tolist()
        for step in range(self.first_step, self.steps_per_epoch):
            start = step * self.batch_size
            yield permutation[start : start + self.batch_size][self.rank :: self.num_replicas]

    def __len__(self) -> int:
        return self.steps_per_epoch - self.first_step

    @property
    def steps_per_epoch(self) -> int:
        """Number of global batches in an epoch; the last one may be smaller."""
        return -(-self.size // self.batch_size)

    def global_count(self, step: int) -> int:
        """Number of samples of all ranks in this step (from 0) of an epoch."""
        return min(self.batch_size, self.size - step * self.batch_size)
