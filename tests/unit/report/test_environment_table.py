"""Environment of ranks, with sources and differences."""

from __future__ import annotations

import pytest

from ddp_play.bundle.run_lookup import load
from ddp_play.report.environment_table import environment, parse_env_file, ranges, variable_rows
from ddp_play.report.run_attempts import read_story
from ddp_play.run.rank_env_file import render_env_file
from tests.unit.build import hosts, plan

from .bundles import ended_bundle


def test_what_the_template_writes_is_read() -> None:
    made = plan(*hosts(2))
    env = made.host_of(1).rank(1).env
    found = parse_env_file(render_env_file(env, rank=1, host="h2", run_id="r"))
    assert found == {var.name: (var.value, var.source) for var in env}


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([5, 0, 1], "0-1, 5"), ([0, 2], "0, 2")]
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_variables_in_which_ranks_differ_come_first() -> None:
    rows = variable_rows(
        {
            0: {"A": ("1", "job"), "RANK": ("0", "plan"), "B": ("x=y", "host")},
            1: {"A": ("1", "job"), "RANK": ("1", "plan")},
        }
    )
    assert [(row["name"], row["num_values"]) for row in rows] == [("B", 2), ("RANK", 2), ("A", 1)]
    assert rows[0]["values"] == [{"value": "x=y", "ranks": "0"}, {"value": None, "ranks": "1"}]
    assert rows[2]["values"] == [{"value": "1", "ranks": "0-1"}]
    assert rows[2]["sources"] == ["job"]


def test_a_secret_is_named_and_has_no_value() -> None:
    paths = ended_bundle()
    paths.env(0).write_text("# rank 0 on h1\n# TOKEN is a secret, which only the rank got (vault)\n# job\nA=1\n")
    found = environment(read_story(load(paths)).attempts[0])
    assert found["secrets"] == ["TOKEN is a secret, which only the rank got (vault)"]
    assert "TOKEN" not in {row["name"] for row in found["variables"]}


def test_without_env_files_there_is_no_environment() -> None:
    paths = ended_bundle()
    for rank in (0, 1):
        paths.env(rank).unlink()
    assert environment(read_story(load(paths)).attempts[0]) == {"num_ranks": 0, "variables": [], "secrets": []}
