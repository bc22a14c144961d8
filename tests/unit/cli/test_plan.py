"""The plan as `ddp-play plan` prints it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddp_play.cli.plan import HOSTS_SHOWN, show_plan
from ddp_play.errors import UsageError
from tests.unit.build import env, hosts, plan


def shown(capsys: pytest.CaptureFixture[str], count: int = 2, rank: int = 0) -> list[str]:
    show_plan(plan(*hosts(count)), rank=rank)
    return capsys.readouterr().out.splitlines()


def test_choices_hosts_environment_and_command_of_a_rank(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, rank=1)
    assert lines[0].split() == ["ranks", "2", "on", "2", "hosts"]
    assert any(line.startswith("h2 ") and line.split()[1] == "1" for line in lines)
    assert any(line.split()[:2] == ["LOCAL_RANK", "0"] for line in lines)
    assert "rank 1's command" in lines


@pytest.mark.parametrize("rank", [-1, 2])
def test_an_unknown_rank_is_refused(capsys: pytest.CaptureFixture[str], rank: int) -> None:
    with pytest.raises(UsageError, match=f"the plan has ranks 0 to 1, not {rank}"):
        shown(capsys, rank=rank)


def test_without_a_rank_it_is_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(plan(*hosts(2)))
    assert "rank 0's command" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("count", "last"), [(HOSTS_SHOWN, f"h{HOSTS_SHOWN}"), (HOSTS_SHOWN + 5, "and 6 more")], ids=["all", "first"]
)
def test_a_long_list_of_hosts_is_cut(capsys: pytest.CaptureFixture[str], count: int, last: str) -> None:
    lines = shown(capsys, count)
    rows = [line for line in lines if line.startswith(("h1 ", f"h{HOSTS_SHOWN - 1} ", f"h{HOSTS_SHOWN} ", "and "))]
    assert rows[-1].startswith(last)


def test_json_is_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    made = plan(*hosts(2))
    show_plan(made, as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(made.to_json()))


@pytest.mark.parametrize(("values", "agent"), [({}, False), ({"launcher": "torchrun"}, True)])
def test_json_of_a_rank_is_complete(capsys: pytest.CaptureFixture[str], values: dict[str, Any], agent: bool) -> None:
    """Everything of that rank, and nothing of the others."""
    made = plan(*hosts(2), **values)
    show_plan(made, as_json=True, rank=1)
    text = capsys.readouterr().out
    got = json.loads(text)
    assert (got["rank"], got["local_rank"], got["host"]) == (1, 0, "h2")
    assert {var["name"]: var["value"] for var in got["env"]} == env(made, 1)
    assert bool(got["agent"]) is agent
    assert "<this_" not in text
    assert "<rank_of_" not in text
