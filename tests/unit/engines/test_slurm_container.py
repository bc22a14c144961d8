"""Lines of an exported script about its container; whole scripts are in test_slurm_export.py."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.engines.slurm_container import gpu_lines, home_lines, step_options
from ddp_play.planning.job import Job, parse_job


def job(**values: Any) -> Job:
    return parse_job({"command": ["true"], "image": "/i.sqsh", "runtime": "pyxis", **values})


def test_a_job_of_another_runtime_has_none() -> None:
    plain = job(image="", runtime="process")
    assert (step_options(plain), gpu_lines(plain)) == ("", [])


def test_the_options_are_lines_of_one_command() -> None:
    assert step_options(job(workdir="/app")).splitlines()[:4] == [
        "\\",
        "  --container-image=/i.sqsh \\",
        "  --no-container-mount-home \\",
        '  --container-mounts="$PWD:$PWD" \\',
    ]
    assert step_options(job()).endswith(" \\\n  ")


@pytest.mark.parametrize(("env", "number"), [({}, 2), ({"HOME": "/h"}, 0)])
def test_a_rank_has_a_home_unless_the_job_gives_one(env: dict[str, str], number: int) -> None:
    assert len(home_lines(job(env=env))) == number
