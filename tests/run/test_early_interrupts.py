"""Ctrl-C and SIGTERM before a run's supervisor exists: while its bundle is made, and while hosts are asked."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.run.conftest import LOCAL, Play
from tests.waiting import wait_until

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.dist, pytest.mark.runner]

# As the Python of a host: it says that it was started, and never answers.
SILENT = "#!/bin/sh\n: > {mark}\nexec sleep 300\n"

DURING_IMPORTS = """
import os, signal, sys
from ddp_play.__main__ import main
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "ddp_play.cli.main":
            os.kill(os.getpid(), signal.{number})
sys.meta_path.insert(0, Interrupting())
main()
"""


def ended(child: subprocess.Popen[str], within_s: float = 30) -> tuple[int, str]:
    out, err = child.communicate(timeout=within_s)
    assert "Traceback" not in out + err
    return child.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [(), ("-d",)])
def test_an_interrupt_while_the_bundle_is_made_leaves_no_run_that_goes_on(
    play: Play, number: signal.Signals, words: tuple[str, ...]
) -> None:
    job = play.job({"command": ["sleep", "300"]})
    child = play.start("run", job, "-i", LOCAL, "--name", "night", *words)
    wait_until((play.home / "runs" / "night").exists, every_s=0.001)
    child.send_signal(number)
    code, err = ended(child)
    assert code == 130, err
    assert "before" in err
    if play.runs():
        wait_until(lambda: play.document().get("finished"), what="the end of the run in its run.json")
        assert play.document()["status"] == "stopped"
    assert play.left_on_host() == []


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_during_the_imports_is_one_line(play: Play, number: str) -> None:
    child = play.start("-c", DURING_IMPORTS.format(number=number), "ps", program="python")
    assert ended(child) == (130, "error: interrupted: nothing was started\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_hosts_are_asked_ends_the_run_at_once(play: Play, number: signal.Signals) -> None:
    inventory, mark = silent_host(play)
    child = play.start("run", play.job({"command": ["true"]}), "-i", inventory)
    wait_until(mark.exists, what="the question to the host")
    child.send_signal(number)
    code, err = ended(child, within_s=60)
    assert code == 130, err
    assert "stopped before it started" in err
    assert (play.document()["status"], play.document()["exit_code"]) == ("stopped", 130)


def test_a_plan_that_is_interrupted_says_that_nothing_was_started(play: Play) -> None:
    inventory, mark = silent_host(play)
    child = play.start("plan", play.job({"command": ["true"]}), "-i", inventory)
    wait_until(mark.exists, what="the question to the host")
    child.send_signal(signal.SIGINT)
    code, err = ended(child, within_s=60)
    assert code == 130
    assert "interrupted while the hosts were asked for the plan: nothing was started" in err


@pytest.mark.parametrize("verb", ["ps", "usage", "gc", "doctor"])
def test_a_verb_whose_hosts_are_being_asked_ends_with_130(play: Play, verb: str) -> None:
    inventory, mark = silent_host(play)
    text = inventory.read_text().rstrip()
    inventory.write_text(
        f"{text}\n    h2: {{ansible_connection: local, ansible_python_interpreter: '{sys.executable}'}}\n"
    )
    child = play.start(verb, "-i", inventory)
    wait_until(mark.exists, what="the question to the host")
    time.sleep(1)  # the other host answers meanwhile
    child.send_signal(signal.SIGINT)
    code, err = ended(child, within_s=60)
    assert code == 130, err


def silent_host(play: Play) -> tuple[Path, Path]:
    """An inventory with a host that never answers, and the file that is there once it was asked."""
    mark = play.cwd / "asked"
    python = play.write("silent.sh", SILENT.format(mark=mark))
    python.chmod(0o755)
    host = f"{{ansible_connection: local, ansible_python_interpreter: {python}}}"
    return play.write("hosts.yml", f"ranks:\n  hosts:\n    h1: {host}\n"), mark
