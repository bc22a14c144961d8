"""Unequal shares."""

import pytest

from trainer.uneven import local_batches, share


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 100, 1437])
def test_uneven_shares_cover_everything_once(count: int, world_size: int) -> None:
    shares = [share(count, rank, world_size) for rank in range(world_size)]
    assert [position for one in shares for position in one] == list(range(count))
    sizes_found = [len(one) for one in shares]
    assert max(sizes_found) == sizes_found[-1]


def test_uneven_batches() -> None:
    assert share(60, 2, 3) == range(30, 60)
    assert [len(batch) for batch in local_batches(60, 8, 2, 3)] == [8, 8, 8, 6]
