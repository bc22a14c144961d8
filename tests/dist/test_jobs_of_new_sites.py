"""Jobs that `ddp-play init` and `lab demo` write, as an exported script starts them: without variables of ddp-play."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dist.gang import free_port

pytestmark = pytest.mark.dist
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


@pytest.mark.parametrize("script", ["site/job/train.py", "lab/job/add_up.py"])
def test_a_job_needs_no_variable_of_ddp_play(script: str, tmp_path: Path) -> None:
    own = {key: value for key, value in os.environ.items() if not key.startswith("DDP_PLAY_")}
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment = own | rank | {"MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, TEMPLATES / script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1" in done.stdout
