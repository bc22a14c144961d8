"""The commands that `ddp-play init` and `lab up` print, in every flavour: minutes each, because torch is large."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from ddp_play.images.recipe import CPU_TAG

from .conftest import Lab, lab_of
from .first_hour import printed_commands, shell, train_as_printed, wheel_index
from .rank_jobs import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(1800)
SHARED_DIRECTORY = [[], ["--shared-dir", SHARED]]


@pytest.fixture(scope="module")
def with_engine(lab_home: Path) -> Iterator[Lab]:
    with lab_of(lab_home, "flavours", "--hosts", "2") as lab:
        yield lab


@pytest.fixture
def bare(lab_home: Path) -> Iterator[Lab]:
    with lab_of(lab_home, "flavours-bare", "--hosts", "2", "--no-docker") as lab:
        yield lab


@pytest.mark.parametrize("shared", SHARED_DIRECTORY, ids=["alone", "shared"])
def test_containers(with_engine: Lab, tmp_path: Path, shared: list[str]) -> None:
    train_as_printed(with_engine, tmp_path, *shared)


def test_processes(bare: Lab, tmp_path: Path) -> None:
    """Without a shared directory; test_first_hour.py has the flavour with one."""
    with wheel_index(bare, tmp_path / "index", ["torch==2.13.0", "numpy==2.2.6"]) as settings:
        train_as_printed(bare, tmp_path, "--runtime", "process", settings=settings)


def test_packages_on_top_of_an_image_that_has_torch(with_engine: Lab) -> None:
    """What the base has is not replaced, and not downloaded again."""
    base = with_engine.play("image", "build", "--cpu", "--tag", CPU_TAG, timeout_s=900)
    assert base.returncode == 0, base.stderr
    tag = f"{CPU_TAG}-more"
    words = ["image", "build", "--base", CPU_TAG, "--with", "jinja2", "--with", "tabulate", "--tag", tag, "--json"]
    built = with_engine.play(*words, timeout_s=600)
    assert built.returncode == 0, built.stderr
    assert [row.partition("==")[0] for row in json.loads(built.stdout)["added"]] == ["tabulate"]
    run = ["docker", "run", "--rm", tag, "python", "-c", "import tabulate, torch; print(torch.__version__)"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.startswith("2.13.0")
    subprocess.run(["docker", "image", "rm", tag], check=True, capture_output=True)


def test_the_commands_of_lab_up(with_engine: Lab, tmp_path: Path) -> None:
    """All but the last one, which removes the lab. DDP_PLAY_HOME is set for `lab up` alone."""
    commands = printed_commands(with_engine.up("--hosts", "2").stdout)
    assert "lab down" in commands[-1]
    done = shell("\n".join(commands[:-1]), with_engine, tmp_path, timeout_s=1500, with_home=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy" in done.stdout


def test_the_commands_of_lab_up_without_an_engine(bare: Lab, tmp_path: Path) -> None:
    commands = printed_commands(bare.up("--hosts", "2", "--no-docker").stdout)
    done = shell("\n".join(commands), bare, tmp_path, timeout_s=900, with_home=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert bare.status()["state"] == "absent"
