"""The commands that `ddp-play init` and `lab up` print, in every flavour: minutes each, because torch is large."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize("shared", SHARED_DIRECTORY, ids=["alone", "shared"])
def test_processes(bare: Lab, tmp_path: Path, shared: list[str]) -> None:
    with wheel_index(bare, tmp_path / "index", ["torch==2.13.0", "numpy==2.2.6"]) as settings:
        train_as_printed(bare, tmp_path, "--runtime", "process", *shared, settings=settings)


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
