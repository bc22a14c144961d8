"""`ddp-play top` of a real host with a real run: one table, JSON, and the screen in tmux."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play, living
from tests.run.tmux import Tmux
from tests.schemas import check
from tests.waiting import wait_until

# Tests that run at the same time see the runs of each other: one machine is one host.
NAME = f"top-{secrets.token_hex(4)}"
pytestmark = [pytest.mark.dist, pytest.mark.runner]


@pytest.fixture
def night(play: Play) -> Iterator[Play]:
    """A run of two ranks that sleep."""
    job = play.job({"command": ["sleep", "600"]})
    assert play("run", str(job), "-i", str(LOCAL), "-d", "--name", NAME).code == 0
    wait_until(lambda: play.document().get("status") == "running", timeout_s=40)
    yield play
    play("stop", NAME, "--now")


def test_one_table_and_json(night: Play) -> None:
    done = night("top", "-i", str(LOCAL))
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.split()[:1] == [NAME]]
    assert line.split()[2] == "2", "it holds both slots"
    assert line.endswith("2 running")
    document = night("top", "-i", str(LOCAL), "--json").json
    check("top", document)
    host = document["hosts"]["localhost"]
    (run,) = [row for row in host["runs"] if row["run"] == NAME]
    assert (run["ranks"], run["slots"], run["unreadable"]) == ({"running": 2}, ["slot-0", "slot-1"], "")
    assert host["slots"] == 2
    assert host["cpu"] is not None


def test_an_inventory_that_is_not_there(play: Play) -> None:
    done = play("top", "-i", "nowhere.yml", "--once")
    assert done.code == 64
    assert "no inventory nowhere.yml" in done.err


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
def test_the_screen_asks_again_and_again_and_leaves_nothing(night: Play, tmp_path: Path) -> None:
    tmux = Tmux(tmp_path / "tmux", night)
    try:
        tmux.start("top", "-i", str(LOCAL), columns=60)
        lines = tmux.sees("slots ", NAME, "2 running")
        assert lines[0].startswith(" 1 host  ")
        assert lines[23] == "up down scroll  q quit"
        night("stop", NAME, "--now")
        wait_until(lambda: NAME not in "\n".join(tmux.lines()), timeout_s=40, every_s=0.3)
        tmux.press("q")
        tmux.ended()
    finally:
        tmux.close()
    wait_until(lambda: not living(str(night.home)), timeout_s=20, every_s=0.3)
