"""The plan as `ddp-play plan` prints it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from ddp_play.cli import console
from ddp_play.cli.main import app
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


WORKDIR = f"/data/[bold]{'x' * 90}[/nope]/:bug:"


def is_whole(lines: list[str]) -> bool:
    return any(line.startswith("h1 ") and line.endswith(WORKDIR) for line in lines)


def test_paths_are_whole_in_files_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """The path was read as markup, which ended the command with the wish for a report to the authors."""
    value = f"[red]{'y' * 90}[/nope]"
    show_plan(plan(*hosts(2), workdir=WORKDIR, env={"DATA": value}))
    lines = capsys.readouterr().out.splitlines()
    assert is_whole(lines)
    assert [line.split()[1] for line in lines if line.startswith("DATA ")] == [value]


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_cuts_nothing(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    settings: dict[str, Any] = {"width": width, "force_terminal": True, "soft_wrap": True, "color_system": None}
    terminal = console.SafeConsole(file=io.StringIO(), **settings)
    monkeypatch.setattr(console, "out", terminal)
    show_plan(plan(*hosts(2), workdir=WORKDIR))
    assert isinstance(terminal.file, io.StringIO)
    lines = terminal.file.getvalue().splitlines()
    assert is_whole(lines)
    assert "\u2026" not in "".join(lines)
    assert any(line.startswith("MASTER_ADDR ") for line in lines)


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--of", "night", "--cached"], "--of names an existing plan: no playbook, no inventory, no --cached"),
        (["--of", "night", "-e", "ddp_job_hosts=1"], "none of Ansible's options go with it"),
        (["--of", "night", "--limit", "h1"], "-> ddp-play plan --of night"),
        (["--of", "night", "-i", "h1,"], "--of names an existing plan"),
        (["--of", ""], "--of is empty"),
    ],
)
def test_what_does_not_go_with_an_existing_plan(words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["plan", *words])
    assert (done.exit_code, says in done.stderr) == (64, True), done.stderr
