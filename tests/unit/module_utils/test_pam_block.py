"""Text of a PAM file with the block of the collection, and byte for byte without it."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.module_utils import pam_block

SITE = "# sshd\n@include common-auth\naccount required pam_nologin.so\n@include common-account\nsession x\n"
LINES = ["account [success=1 default=ignore] pam_succeed_if.so quiet uid eq 0", "account required pam_slurm_adopt.so"]
BLOCK = f"{pam_block.BEGIN}\n{LINES[0]}\n{LINES[1]}\n{pam_block.END}\n"


def test_lines_of_several_blocks() -> None:
    twice = pam_block.with_block("a\n", ["b"]) + "c\n" + pam_block.with_block("", ["d", "e"])
    assert pam_block.block_lines(twice) is None
    assert pam_block.lines_of_blocks(twice) == ["b", "d", "e"]
    assert pam_block.lines_of_blocks("a\n") == []


@pytest.mark.parametrize("before", [SITE, "", "\n", "# \udcff\n", "a\r\nb\x0cc\n", SITE.rstrip("\n"), "x"])
def test_what_was_there_returns(before: str) -> None:
    after = pam_block.with_block(before, LINES)
    assert after.startswith(before)
    assert pam_block.block_lines(after) == LINES
    assert pam_block.with_block(after, LINES) == after
    assert pam_block.without_block(after) == before
    other = pam_block.with_block(after, LINES[1:])
    assert (pam_block.block_lines(other), pam_block.without_block(other)) == (LINES[1:], before)


def test_the_block_is_the_last() -> None:
    assert pam_block.with_block(SITE, LINES) == SITE + BLOCK


@pytest.mark.parametrize(
    ("text", "without"),
    [
        (SITE + BLOCK + "session more\n", SITE + "session more\n"),
        ("# top\n" + SITE + BLOCK, "# top\n" + SITE),
        (BLOCK + SITE, SITE),
        (SITE + BLOCK + BLOCK, SITE),
        (SITE + BLOCK.rstrip("\n"), SITE),
        (pam_block.with_block("x", LINES) + "y\n", "x\ny\n"),
        (SITE, SITE),
    ],
)
def test_what_others_have_changed_stays(text: str, without: str) -> None:
    assert pam_block.without_block(text) == without


def test_a_block_in_place_is_left_where_it_is() -> None:
    text = SITE + BLOCK + "session more\n"
    assert pam_block.with_block(text, LINES) == text
    assert pam_block.with_block(text, LINES[1:]).startswith(SITE + "session more\n" + pam_block.BEGIN)


@pytest.mark.parametrize(
    ("text", "lines", "damaged"),
    [
        (SITE, None, False),
        (SITE + BLOCK, LINES, False),
        (SITE + BLOCK + BLOCK, None, False),
        (SITE + BLOCK.replace(pam_block.END, "#"), None, True),
        (SITE + BLOCK.replace(pam_block.BEGIN, "#"), None, True),
        (SITE + pam_block.BEGIN + "\n" + BLOCK, None, True),
    ],
)
def test_a_block_without_one_of_its_marks_is_damaged(text: str, lines: list[str] | None, damaged: bool) -> None:
    assert (pam_block.block_lines(text), pam_block.is_damaged(text)) == (lines, damaged)


def test_lines_that_pam_reads() -> None:
    assert pam_block.active_lines("# x\n\n  account a\n#account b\n" + BLOCK + "session c\n") == [
        "account a",
        "session c",
    ]
