"""The commands in the documents that are marked `<!-- run -->`, in order; a page's files are in one directory."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.content.doc_blocks import PAGES, ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.run.conftest import Play

pytestmark = [pytest.mark.dist, pytest.mark.runner]

RUNNABLE = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path, play: Play) -> None:
    found = blocks(page)
    for block in found:
        if block.file:
            play.write(block.file, block.body)
    for block in found:
        if block.runs:
            done = subprocess.run(
                ["sh", "-eu", "-c", block.script],
                cwd=play.cwd,
                env=play.env(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            assert done.returncode == 0, f"{block.where}\n{done.stdout}\n{done.stderr}"
    assert play.left_on_host() == []
