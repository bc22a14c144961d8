"""Every global batch is the same set of samples for any number of ranks."""

from itertools import chain

import pytest
import torch
from torch.utils.data import DistributedSampler, TensorDataset

from trainer.sampler import GlobalBatchSampler


def sampler(rank: int, world_size: int, *, size: int = 100, batch_size: int = 16, seed: int = 3) -> GlobalBatchSampler:
    return GlobalBatchSampler(
        TensorDataset(torch.zeros(size)), rank=rank, world_size=world_size, batch_size=batch_size, seed=seed
    )


def global_batches(world_size: int, epoch: int = 0, **shape: int) -> list[list[int]]:
    samplers = [sampler(rank, world_size, **shape) for rank in range(world_size)]
    for one in samplers:
        one.set_epoch(epoch)
    return [sorted(chain(*shares)) for shares in zip(*samplers, strict=True)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 32])
@pytest.mark.parametrize(("size", "batch_size"), [(100, 16), (97, 10), (5, 64), (64, 64), (33, 1)])
def test_global_batches_do_not_depend_on_the_world_size(world_size: int, size: int, batch_size: int) -> None:
    batches = global_batches(world_size, size=size, batch_size=batch_size)
    assert batches == global_batches(1, size=size, batch_size=batch_size)
    assert sorted(chain(*batches)) == list(range(size))  # each sample once: nothing repeated, nothing dropped


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_shares_differ_by_at_most_one_sample(world_size: int) -> None:
    for shares in zip(*(sampler(rank, world_size) for rank in range(world_size)), strict=True):
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_equals_distributed_sampler_where_everything_divides() -> None:
    plain: DistributedSampler[int] = DistributedSampler(TensorDataset(torch.zeros(96)), num_replicas=4, rank=2, seed=3)
    plain.set_epoch(5)
    ours = sampler(2, 4, size=96, batch_size=16)
    ours.set_epoch(5)
    assert list(chain(*ours)) == list(plain)


def test_epoch_and_seed_change_the_order() -> None:
    assert global_batches(1, epoch=0) == global_batches(1, epoch=0)
    assert global_batches(1, epoch=0) != global_batches(1, epoch=1)
    assert global_batches(1, seed=3) != global_batches(1, seed=4)


def test_resumes_in_the_middle_of_an_epoch() -> None:
    whole, rest = sampler(1, 2), sampler(1, 2)
    rest.first_step = 4
    assert list(rest) == list(whole)[4:]
    assert len(rest) == len(whole) - 4 == 3


def test_global_count_is_the_size_of_each_batch() -> None:
    one = sampler(0, 1, size=37, batch_size=16)
    assert [one.global_count(step) for step in range(one.steps_per_epoch)] == [16, 16, 5]
