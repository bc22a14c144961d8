"""The screen of a real run in tmux, driven through its keys at 60, 100 and 200 columns."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play
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
DEADLINE_S = 40


@dataclass
class Tmux:
    """A tmux server of the test's own with one window, whose text stays when its command has ended."""

    socket: Path
    play: Play

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-u", "-S", str(self.socket), "-f", "/dev/null", *words]
        done = subprocess.run(
            command, env=self.play.env(), cwd=self.play.cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    def start(self, *words: str, columns: int) -> None:
        """Run ddp-play in the window."""
        command = [str(Path(sys.executable).with_name("ddp-play")), *words]
        self("new-session", "-d", "-x", str(columns), "-y", "24", "sleep 600")
        self("set-option", "-g", "remain-on-exit", "on")
        self("respawn-window", "-k", *command)

    def again(self, *words: str) -> None:
        """Run another ddp-play in the window."""
        self("respawn-window", "-k", str(Path(sys.executable).with_name("ddp-play")), *words)

    def lines(self) -> list[str]:
        """What is on the screen."""
        return [line.rstrip() for line in self("capture-pane", "-p").splitlines()]

    def press(self, *keys: str) -> None:
        """Press keys."""
        self("send-keys", *keys)

    def sees(self, *texts: str) -> list[str]:
        """Wait until all texts are on the screen; its lines."""

        def shown() -> bool:
            return all(text in "\n".join(self.lines()) for text in texts)

        try:
            wait_until(shown, timeout_s=DEADLINE_S, every_s=0.2)
        except AssertionError:
            raise AssertionError(f"{texts} not in\n" + "\n".join(self.lines())) from None
        return self.lines()

    def resize(self, columns: int) -> None:
        """Change the size of the window."""
        self("resize-window", "-x", str(columns), "-y", "24")


@pytest.fixture
def tmux(play: Play, tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path / "tmux", play)
    yield made
    subprocess.run(["tmux", "-S", str(made.socket), "kill-server"], check=False, capture_output=True)


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
    assert lines[0].startswith("run ")
