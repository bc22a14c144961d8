"""On a terminal: Ctrl-C asks what is meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pexpect
import pytest

from tests.run.conftest import LOCAL, Play
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]


@pytest.fixture
def terminal(play: Play) -> pexpect.spawn:
    """`ddp-play run` of a job that sleeps, on a terminal, with its ranks running."""
    job = play.job({"command": ["sh", "-c", "echo begun; sleep 600"]})
    command = str(Path(sys.executable).with_name("ddp-play"))
    words = ["run", str(job), "-i", str(LOCAL), "--name", "here"]
    child = pexpect.spawn(command, words, env=play.env(), cwd=str(play.cwd), encoding="utf-8", timeout=40)
    child.expect("localhost:0: begun")
    return child


def test_ctrl_c_and_d_leaves_the_run_behind(play: Play, terminal: pexpect.spawn) -> None:
    terminal.sendintr()
    terminal.expect(r"\[d\] detach")
    terminal.sendline("d")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert play("ps", "--json").json["runs"][0]["attended"] is True
    assert play("stop", "here", "--now").code == 0


def test_ctrl_c_and_s_stops_it(play: Play, terminal: pexpect.spawn) -> None:
    terminal.sendintr()
    terminal.expect(r"\[d\] detach")
    terminal.sendline("s")
    terminal.expect("stopped on|interrupted with Ctrl-C")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130
    assert play.document()["status"] == "stopped"
    wait_until(lambda: not play.left_on_host(), timeout_s=5)
