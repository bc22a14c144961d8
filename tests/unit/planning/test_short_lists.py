"""Lists that name the first few of many."""

from __future__ import annotations

import pytest

from ddp_play.planning.short_lists import short_list


@pytest.mark.parametrize(
    ("num_rows", "most", "expected"),
    [
        (0, 4, ""),
        (1, 4, "h1"),
        (4, 4, "h1, h2, h3, h4"),
        (5, 4, "h1, h2, h3, h4 and 1 more"),
        (9, 2, "h1, h2 and 7 more"),
    ],
)
def test_the_first_few_and_how_many_more(num_rows: int, most: int, expected: str) -> None:
    assert short_list((f"h{number}" for number in range(1, num_rows + 1)), most) == expected


def test_rows_with_commas_of_their_own_are_separated_otherwise() -> None:
    assert short_list(["a, b", "c", "d"], 2, separator="; ") == "a, b; c and 1 more"
