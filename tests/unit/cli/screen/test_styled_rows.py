"""Texts that fit, and short texts of figures."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from ddp_play.cli.screen.styled_rows import (
    clean,
    cut,
    ends,
    filled,
    fit,
    joined,
    padded,
    short_age,
    short_bytes,
    sparkline,
    width_of,
)


@pytest.mark.parametrize(
    ("text", "width", "found"),
    [
        ("", 5, ""),
        ("short", 5, "short"),
        ("too long", 5, "too ~"),
        ("漢字漢字", 5, "漢字~"),
        ("漢字漢字", 4, "漢 ~"),
        ("any", 0, ""),
        ("e\u0301" * 50, 5, None),
    ],
)
def test_a_text_is_cut_to_its_cells(text: str, width: int, found: str | None) -> None:
    short = cut(text, width)
    assert cell_len(short) <= width
    assert found is None or short == found


def test_what_controls_a_terminal_is_replaced() -> None:
    assert clean("a\x1b[1mb\nc\td\u202ee") == "a\ufffd[1mb c d\ufffde"


def test_a_column_has_its_width() -> None:
    assert [padded("ab", 4), padded("ab", 4, right=True), padded("漢字漢", 4)] == ["ab  ", "  ab", "漢 ~"]


def test_rows_are_cut_filled_and_joined() -> None:
    row = [("abc", "bold"), ("defg", "")]
    assert fit(row, 5) == [("abc", "bold"), ("d~", "")]
    assert filled(row, 9, "title") == [("abcdefg  ", "title")]
    assert width_of(row) == 7
    assert joined([row, [("h", "dim")], [("never", "dim")]], 11) == [*row, ("  ", ""), ("h", "dim")]
    assert joined([], 5) == []


@pytest.mark.parametrize(("width", "text"), [(9, "left  end"), (8, "left end"), (7, "left   "), (3, "le~")])
def test_the_right_end_needs_room(width: int, text: str) -> None:
    assert ends([("left", "")], [("end", "")], width, "title") == [(text, "title")]


@pytest.mark.parametrize(
    ("values", "ascii_only", "text"),
    [
        ([], False, ""),
        ([1.0], False, "▁"),
        ([0.0, 1.0, 2.0, 7.0], False, "▁▂▃█"),
        ([7.0, 0.0], True, "#_"),
        ([3.0, 3.0], False, "▁▁"),
        ([1e308, -1e308], False, "█▁"),
    ],
)
def test_a_small_curve(values: list[float], ascii_only: bool, text: str) -> None:
    assert sparkline(values, ascii_only=ascii_only) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (9960, "10k"), (1.25e6, "1.2M"), (230e9, "230G"), (5.1e13, "51T")],
)
def test_bytes_in_few_cells(count: float, text: str) -> None:
    assert short_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (0, "0s"), (59, "59s"), (61, "1m"), (7300, "2h"), (9e9, "999d")]
)
def test_ages_in_few_cells(seconds: float, text: str) -> None:
    assert short_age(seconds) == text
