"""Blocks of code in the documents, and their marks.

A comment above a block says what tests do with it: `<!-- run -->` (tests/run executes it, in the page's directory),
`<!-- not run: REASON -->`, or `<!-- file: NAME -->` (a file in that directory).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>(?:run|not run|file)\b[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[a-z{}-]*)(?: html)?\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
COMMANDS = ("sh", "console", "bash", "shell")


@dataclass(frozen=True)
class DocBlock:
    """One block of a page."""

    page: Path
    line: int
    language: str
    mark: str
    body: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.mark == "run"

    @property
    def file(self) -> str:
        """Name of the file that the block is, or nothing."""
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else ""

    @property
    def script(self) -> str:
        """The commands, without prompts."""
        return "\n".join(line.removeprefix("$ ") for line in self.body.splitlines()) + "\n"


def blocks(page: Path) -> tuple[DocBlock, ...]:
    text = page.read_text(encoding="utf-8")
    return blocks_of(page, text)


def blocks_of(page: Path, text: str) -> tuple[DocBlock, ...]:
    """Every block of a text, in order."""
    return tuple(
        DocBlock(
            page,
            text.count("\n", 0, match.start("indent")) + 1,
            match["language"],
            match["mark"] or "",
            textwrap.dedent(match["body"]),
        )
        for match in BLOCK.finditer(text)
    )
