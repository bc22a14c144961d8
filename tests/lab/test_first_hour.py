"""What a stranger runs first: `lab demo`, and the commands that `ddp-play init` prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.schemas import check
from tests.waiting import wait_until

from .conftest import COMMAND, Lab, lab_of
from .first_hour import printed_commands, shell, train_as_printed, wheel_index
from .rank_jobs import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def demo(lab_home: Path) -> Iterator[Lab]:
    """A name for the demo's lab; it is gone afterwards."""
    lab = Lab(f"demo-{os.getpid()}", lab_home)
    yield lab
    lab.down()


def containers(lab: Lab) -> list[str]:
    command = ["docker", "ps", "--all", "--quiet", "--filter", f"label=ddp-play.lab={lab.name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_demo_goes_the_whole_way_and_its_commands_work_as_printed(demo: Lab, tmp_path: Path) -> None:
    done = demo.play("lab", "demo", "--slim", "--name", demo.name, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for host in ("h1:0: rank 0 of 2 on h1: the sum is 1", "h2:1: rank 1 of 2 on h2: the sum is 1"):
        assert host in done.stdout
    shown, removal = done.stdout.split("to remove it:")
    next_ones, (down, image_rm, _) = printed_commands(shown.split("next:")[1]), printed_commands(removal)
    assert image_rm == "docker image rm ddp-play-rank:slim"  # not run: other tests have these images
    assert len(next_ones) == 5
    ran = shell("\n".join(next_ones), demo, tmp_path, timeout_s=300, with_home=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "site/inventory/hosts.yml").is_file()

    hosts = containers(demo)
    again = demo.play("lab", "demo", "--slim", "--name", demo.name, "--json", timeout_s=300)
    answer = json.loads(again.stdout)
    check("lab-demo", answer)
    assert (answer["status"], answer["exit_code"]) == ("succeeded", 0)
    assert "creating" not in again.stderr
    assert "sending" not in again.stderr
    assert containers(demo) == hosts

    assert shell(down, demo, tmp_path, timeout_s=120, with_home=False).returncode == 0
    assert containers(demo) == []


def test_an_interrupted_demo_says_what_exists_and_how_to_go_on(demo: Lab, tmp_path: Path) -> None:
    words = [COMMAND, "lab", "demo", "--slim", "--name", demo.name]
    started = subprocess.Popen(words, env=demo.environment, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(containers(demo)) == 2, timeout_s=120, what="two hosts")
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=120)
    assert started.returncode == 130, err
    assert "there are now: 2 hosts" in err
    go_on, down = printed_commands(err)[:2]
    assert "lab demo --slim" in go_on
    assert shell(go_on, demo, tmp_path, timeout_s=300, with_home=False).returncode == 0
    assert shell(down, demo, tmp_path, timeout_s=120, with_home=False).returncode == 0
    assert containers(demo) == []


@pytest.fixture
def bare(lab_home: Path) -> Iterator[Lab]:
    """Two hosts without an engine."""
    with lab_of(lab_home, "first", "--hosts", "2", "--no-docker") as lab:
        yield lab


@pytest.mark.timeout(1800)
def test_the_commands_of_init_train_a_model(bare: Lab, tmp_path: Path) -> None:
    """Processes with a shared directory, where torch is installed once. Others: test_first_hour_flavours.py."""
    with wheel_index(bare, tmp_path / "index", ["torch==2.13.0", "numpy==2.2.6"]) as settings:
        train_as_printed(bare, tmp_path, "--runtime", "process", "--shared-dir", SHARED, settings=settings)
