"""One process supervises a run: real locks on a real file."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.errors import Busy
from ddp_play.run.supervisor_lock import supervisor_lock
from tests.unit.run.conftest import Make

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from pathlib import Path
from ddp_play.bundle.paths import RunPaths
from ddp_play.run.supervisor_lock import supervisor_lock
with supervisor_lock(RunPaths(Path(sys.argv[1]))):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "calm-otter-1")
    made.create()
    return made


def test_the_lock_is_free_again_after_use(paths: RunPaths) -> None:
    for _ in range(2):
        with supervisor_lock(paths):
            assert paths.lock.exists()


def test_the_lock_is_free_again_after_an_error(paths: RunPaths) -> None:
    with pytest.raises(ValueError, match="inside"), supervisor_lock(paths):
        raise ValueError("inside")
    with supervisor_lock(paths):
        pass


def test_a_second_process_is_refused_until_the_first_one_dies(paths: RunPaths) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(paths.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(Busy, match="run calm-otter-1 is supervised by another process"), supervisor_lock(paths):
            pass
        other.kill()
        other.wait(10)
        with supervisor_lock(paths):
            pass


def test_a_run_that_another_process_supervises_is_not_supervised_again(make: Make) -> None:
    stage = make(1, network="")
    with supervisor_lock(stage.paths), pytest.raises(Busy, match="supervised by another process"):
        stage.supervisor().run()
    assert stage.far["h1"].orders == []
