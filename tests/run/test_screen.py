"""The screen of a real run in tmux, driven through its keys at 60, 100 and 200 columns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play
from tests.run.tmux import DEADLINE_S, Tmux
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.dist,
    pytest.mark.runner,
    pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux"),
]

SCRIPT = """
import json, os, time
rank, metrics = os.environ["RANK"], open(os.environ["DDP_PLAY_METRICS"], "a", buffering=1)
for step in range(3000):
    print(f"step {step} of rank {rank}", flush=True)
    metrics.write(json.dumps({"step": step, "loss": 3 / (1 + step)}) + "\\n")
    time.sleep(0.2)
"""


@pytest.fixture
def tmux(play: Play, tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path / "tmux", play)
    yield made
    made.close()


def start(play: Play, tmux: Tmux, columns: int) -> None:
    """A run of two ranks that print and report metrics."""
    play.write("src/fit.py", SCRIPT)
    job = play.job({"command": ["python3", "fit.py"], "source": "./src"})
    tmux.start("run", str(job), "-i", str(LOCAL), "--name", "night", columns=columns)


def test_through_all_keys(play: Play, tmux: Tmux) -> None:
    start(play, tmux, 100)
    lines = tmux.sees("2 running", " of rank 0", " of rank 1", "steps/s")
    assert lines[0].endswith("2 ranks on 1 host, gloo over local")
    assert lines[2].startswith("loss ")
    assert lines[23].endswith("q leave  m metric")
    tmux.press("Down", "Enter")
    tmux.sees(" localhost:1 running", "of rank 1", "follows")
    tmux.press("Left")
    tmux.sees(" localhost:0 running", "of rank 0")
    tmux.press("q", "e")
    tmux.sees(" events (", "2 ranks on 1 host, gloo over local (127.0.0.0/8)")
    tmux.press("?")
    tmux.sees("curve of another metric")
    tmux.press("q")
    tmux.sees("2 running")
    tmux.resize(60)
    lines = tmux.sees("s stop  q leave")
    assert max(map(len, lines)) <= 60
    tmux.press("g")
    wait_until(lambda: any(line.startswith("+ localhost  2 running") for line in tmux.lines()), timeout_s=DEADLINE_S)
    tmux.resize(200)
    tmux.sees("+ localhost  2 running", "m metric")
    tmux.press("d")
    tmux.sees("detached: ddp-play attach night", "ranks: 2 running")
    assert "run night: " in tmux("capture-pane", "-p", "-S", "-100"), "what was there before is there again"
    assert play("ps", "--json").json["runs"][0]["attended"] is True
    tmux.again("attach", "night")
    tmux.sees("2 running", "last lines, l: whole screen")
    tmux.press("s")
    tmux.sees("stop all ranks? y: yes")
    tmux.press("y")
    lines = tmux.sees("run night stopped after", "stopped with the key s", "bundle:")
    assert "ranks: 2 stopped" in "\n".join(lines)
    assert play.document()["exit_code"] == 130


def test_ctrl_c_asks_on_the_normal_screen_and_goes_on(play: Play, tmux: Tmux) -> None:
    start(play, tmux, 100)
    tmux.sees("2 running")
    tmux.press("C-c")
    tmux.sees("[d] detach, the run goes on   [s] stop night gracefully", "d/s>")
    tmux.press("s", "Enter")
    tmux.sees("run night stopped after", "interrupted with Ctrl-C")
    assert play.document()["exit_code"] == 130


def test_plain_prints_lines(play: Play, tmux: Tmux) -> None:
    job = play.job({"command": ["sh", "-c", "echo hello from $RANK"]})
    tmux.start("run", str(job), "-i", str(LOCAL), "--plain", columns=100)
    lines = tmux.sees("localhost:0: hello from 0", "succeeded after", "bundle:")
    assert "? help" not in "\n".join(lines)
