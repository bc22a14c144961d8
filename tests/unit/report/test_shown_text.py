"""Texts of logs and hosts for a page."""

from __future__ import annotations

import pytest

from ddp_play.report.shown_text import log_lines, printable

MARK = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.5 <b>", "loss 0.5 <b>"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31m", f"{MARK}[31m"),
        ("abc\u202ecba", f"abc{MARK}cba"),
        ("a\u200bb\ufeff", f"a{MARK}b{MARK}"),
        ("half \ud800", f"half {MARK}"),
        ("h\u00e9 \u4e16", "h\u00e9 \u4e16"),
        ("a\u0301\u0323b" * 9, "a\u0301\u0323b" * 9),
        ("a" + "\u0301\u0489" * 300 + "b", f"a\u0301\u0489\u0301\u0489{MARK}b"),
        ("\u0e01" + "\u0e47" * 99, "\u0e01" + "\u0e47" * 4 + MARK),
    ],
)
def test_characters_that_change_what_a_page_seems_to_say(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(7) == 7


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07end\x1b(B\n", ["red end"]),
        (b" 10%\r 50%\r100%\n", ["100%"]),
        (b" 10%\r\n", [" 10%"]),
        (b"\xff\xfe\n", [MARK * 2]),
        (b"x" * 30 + b"\n", ["x" * 8 + " ... 22 more characters"]),
    ],
)
def test_lines_of_a_log(data: bytes, lines: list[str]) -> None:
    assert log_lines(data, longest=8) == lines
