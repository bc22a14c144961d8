"""-k, -K and -J where there is no terminal: one line, exit code 64, and no wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play

pytestmark = [pytest.mark.dist, pytest.mark.runner]


@pytest.mark.parametrize("words", ["plan -k", "run -K", "ps -J", "verify -K"])
def test_no_terminal_and_no_standard_input(play: Play, words: str) -> None:
    job = [str(play.job({"command": ["true"]}))] if words.split(maxsplit=1)[0] in ("plan", "run") else []
    command = [str(Path(sys.executable).with_name("ddp-play")), *words.split(), *job, "-i", str(LOCAL)]
    done = subprocess.run(
        command, cwd=play.cwd, env=play.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        start_new_session=True, check=False,
    )  # fmt: skip
    assert done.returncode == 64, done.stderr
    assert done.stderr.startswith(f"error: {words.split()[1]} asks for the ")
    assert "no terminal" in done.stderr
    assert play.runs() == []
