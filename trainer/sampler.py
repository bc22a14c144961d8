"""Which samples a rank sees in which step: every global batch is cut out of one shared permutation."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, DistributedSampler


class GlobalBatchSampler(DistributedSampler[list[int]]):
    """A DistributedSampler that yields this rank's share of each GLOBAL batch.

    Step k trains on permutation[k * B : (k + 1) * B], whatever the world size, and rank r takes every
    world_size-th sample of it from position r on. The plain DistributedSampler gives the same split while
    the world size divides both B and the data set; otherwise it repeats samples to fill up, and 2 and 3
    ranks no longer train on the same batches. Nothing is repeated or dropped here, so shares differ by at
    most one sample (and may be empty in the last batch): the loss must be scaled by the global count (see
    gradients.py).
    """

    def __init__(self, dataset: Dataset[Any], *, rank: int, world_size: int, batch_size: int, seed: int) -> None:
        super().__init__(dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=seed)
        self.size = len(dataset)  # type: ignore[arg-type]
        self.batch_size = batch_size
        self.first_step = 0  # steps of this epoch that are already done (resume)

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
        return -(-self.size // self.batch_size)

    def global_count(self, step: int) -> int:
        """How many samples all ranks together train on in this step of an epoch."""
        return min(self.batch_size, self.size - step * self.batch_size)
