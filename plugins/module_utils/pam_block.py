"""Text of a PAM file with one marked block of this collection at its end; no I/O here."""

from __future__ import annotations

import re
from typing import List, Optional

BEFORE = ".ddp-play-before"  # what follows the path for the file as it was before lines that wait for their proof
BEGIN = "# BEGIN ddp-play (role slurm)"
END = "# END ddp-play (role slurm)"
# On the first line of a block that follows a line without a newline, so that the removal takes the newline away again.
JOINED = ": the line above had no newline"
BLOCK = re.compile(
    r"(?P<before>\n?)(?<![^\n])" + re.escape(BEGIN) + r"(?P<joined>[^\n]*)\n"
    r"(?P<lines>(?:[^\n]*\n)*?)" + re.escape(END) + r"(?:\n|\Z)"
)


def block_lines(text: str) -> Optional[List[str]]:
    """Lines of the block without its marks; None without a block, with several, and with a damaged one."""
    found = list(BLOCK.finditer(text))
    return found[0]["lines"].splitlines() if len(found) == 1 and not is_damaged(text) else None


def lines_of_blocks(text: str) -> List[str]:
    """Lines of all blocks: a merge by hand may leave several."""
    return [line for match in BLOCK.finditer(text) for line in match["lines"].splitlines()]


def is_damaged(text: str) -> bool:
    """Whether a mark has lost its other half, so that nobody knows which lines are in the block."""
    rest = without_block(text)
    inside = any(BEGIN in match["lines"] for match in BLOCK.finditer(text))
    return inside or any(line.startswith((BEGIN, END)) for line in rest.split("\n"))


def without_block(text: str) -> str:
    """The text as it was before the block; what others have changed around it stays."""

    def instead(match: "re.Match[str]") -> str:
        alone = match["joined"] == JOINED and match.end() == len(text)
        return "" if alone else match["before"]

    return BLOCK.sub(instead, text)


def with_block(text: str, lines: List[str]) -> str:
    """The text with these lines as its block; the same text if it has them already, wherever the block is.

    PAM has a stack per type, in the order of the file with what it includes, so the end of the file is the end of each.
    """
    if block_lines(text) == lines:
        return text
    rest = without_block(text)
    joined = bool(rest) and not rest.endswith("\n")
    begin = BEGIN + (JOINED if joined else "")
    return rest + ("\n" if joined else "") + "".join(line + "\n" for line in (begin, *lines, END))


def active_lines(text: str) -> List[str]:
    """Lines of others that PAM reads: neither comments nor the block."""
    lines = (line.strip() for line in without_block(text).split("\n"))
    return [line for line in lines if line and not line.startswith("#")]
