"""The table of what an exported script does not do: rows for what the job says, and none for what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.engines.slurm_losses import ALWAYS, loss_table, losses
from ddp_play.planning.job import parse_job

PLAIN = {"command": ["true"], "hosts": 2, "ranks_per_host": 1}


def names(**values: Any) -> set[str]:
    return {loss.what for loss in losses(parse_job({**PLAIN, **values}))} - {loss.what for loss in ALWAYS}


def test_a_plain_job_loses_only_what_all_lose() -> None:
    assert names() == set()


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ({"source": "/code"}, "source"),
        ({"command": ["python", "train.py"]}, "python"),
        ({"max_duration": "1h"}, "time limit"),
        ({"idle_timeout": "10m"}, "a hang"),
        ({"env": {"TOKEN": None, "A": "1"}}, "your environment"),
        ({"ranks_per_host": "auto"}, "ranks per node"),
        ({"hosts": "2..3"}, "fewer nodes"),
        ({"image": "/x.sqsh", "runtime": "pyxis", "command": ["python", "train.py"]}, "container"),
    ],
)
def test_a_setting_has_its_row(values: dict[str, Any], row: str) -> None:
    assert names(**values) == {row}


def test_the_table_is_comments_in_columns() -> None:
    lines = loss_table(losses(parse_job(PLAIN)))
    assert all(line.startswith("# ") for line in lines)
    column = lines[1].index("ddp-play run")
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines[1:])
