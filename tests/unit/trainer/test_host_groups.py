"""Host groups: the ranks that share a host."""

import pytest

from trainer.host_groups import ranks_on_same_host


@pytest.mark.parametrize(
    ("rank", "hosts", "expected"),
    [(0, [7], (0,)), (1, [7, 7, 9], (0, 1)), (2, [7, 7, 9], (2,)), (2, [7, 9, 7], (0, 2))],
)
def test_ranks_on_same_host(rank: int, hosts: list[int], expected: tuple[int, ...]) -> None:
    assert ranks_on_same_host(rank, hosts) == expected
