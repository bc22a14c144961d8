"""The pure parts of timing collectives."""

from argparse import ArgumentTypeError

import pytest

from trainer.collective_timing import parse_size, percentile, sizes


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("4K", 4096), ("64m", 2**26), ("1G", 2**30)])
def test_size(text: str, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize("text", ["", "K", "8B", "1.5G", "0", "-8"])
def test_size_refuses(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        parse_size(text)


def test_percentiles_by_nearest_rank() -> None:
    values = [float(n) for n in range(1, 201)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (100.0, 198.0, 200.0)
    assert percentile([3.0], 0.99) == 3.0


def test_sizes_end_with_the_largest() -> None:
    assert sizes(8, 8, 4) == [8]
    assert sizes(8, 100, 4) == [8, 32, 100]
    assert sizes(8, 128, 4) == [8, 32, 128]
