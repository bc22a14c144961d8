"""Parts that explain bad cells: the worst first, and what they do not explain."""

from __future__ import annotations

from ddp_play.checks.pair_attribution import RECEIVES, SENDS, TAKES_PART, Blame, attribute, norm_of, parts_of, quarter

HOSTS = "abcd"
Cells = dict[tuple[str, str], float]


def cells(**bad: float) -> Cells:
    """All directions with badness 0, but for those named `ab=1.0`."""
    return {(one, other): bad.get(one + other, 0.0) for one in HOSTS for other in HOSTS if one != other}


def blamed(values: Cells, *, directed: bool = True) -> Blame:
    parts = parts_of(values, directed=directed)
    return attribute(
        values, parts, norm_of(values, parts), part_limit=lambda norm, _: norm.part + 0.1,
        cell_limit=lambda norm: norm.cell + 0.2,
    )  # fmt: skip


def test_at_least_three_quarters_are_as_bad() -> None:
    assert quarter([5]) == 5
    assert quarter([5, 1]) == 1
    assert quarter([4, 3, 2, 1]) == 1
    assert quarter([5, 4, 3, 2, 1]) == 2


def test_a_clean_matrix_blames_nobody() -> None:
    found = blamed(cells())
    assert (found.parts, found.cells) == ({}, {})


def test_a_sender_whose_cells_are_all_bad() -> None:
    found = blamed(cells(ab=1.0, ac=1.1, ad=0.9))
    assert found.parts == {(SENDS, "a"): 0.9}
    assert found.cells == {}
    assert found.limits == {(SENDS, "a"): 0.1}


def test_both_ways_and_two_hosts_at_once() -> None:
    found = blamed(cells(ab=1.0, ac=1.0, ad=1.0, ba=1.0, ca=1.0, da=1.0))
    assert found.parts.keys() == {(SENDS, "a"), (RECEIVES, "a")}
    found = blamed(cells(ab=1.0, ac=1.0, ad=1.0, bd=0.5, cd=0.5))
    assert found.parts.keys() == {(SENDS, "a"), (RECEIVES, "d")}


def test_a_cell_that_no_part_explains() -> None:
    found = blamed(cells(ab=0.5))
    assert found.parts == {}
    assert found.cells == {("a", "b"): (0.5, 0.2)}
    # one that is much worse than the host behind it is a defect of its own
    found = blamed(cells(ab=1.0, ac=1.0, ad=1.6))
    assert found.cells == {("a", "d"): (1.6, 1.2)}


def test_pairs_without_a_direction() -> None:
    values = {cell: value for cell, value in cells(ab=1.0, ac=1.0, ad=1.0).items() if cell[0] < cell[1]}
    assert blamed(values, directed=False).parts == {(TAKES_PART, "a"): 1.0}


def test_the_norm_of_three_hosts_is_that_of_the_two_good_ones() -> None:
    values = {(one, other): 1.0 if "c" in (one, other) else 0.0 for one in "abc" for other in "abc" if one != other}
    norm = norm_of(values, parts_of(values))
    assert (norm.part, norm.cell, norm.spread) == (0.0, 0.0, 0.0)
