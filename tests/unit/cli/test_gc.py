"""Leftovers of runs as `ddp-play gc` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from ddp_play.cli.gc import _as_json, _show
from ddp_play.cli.main import app
from ddp_play.run.garbage_collection import Leftovers

if TYPE_CHECKING:
    import pytest


def run(name: str, owner: str = "ops", *, alive: bool = False) -> dict[str, Any]:
    row = {"run": name, "token": "t", "attempt": 1, "owner": owner, "inventory_host": "h1", "phase": "running"}
    return {**row, "guard_alive": alive, "path": f"/state/{name}"}


def test_leftovers_other_users_runs_and_problems(capsys: pytest.CaptureFixture[str]) -> None:
    found = Leftovers([run("a"), run("b", "root"), run("c", alive=True)], [], {"h2": "unreachable"}, me="ops")
    _show(found)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "h1: run a attempt 1 of ops (running): /state/a",
        "h1: run b attempt 1 of root (running): /state/b: left alone, of root",
        "h1: run c attempt 1 of ops (running): /state/c: left alone, running",
    ]
    assert captured.err.splitlines() == ["repeat the command with --yes to remove them"]
    document = _as_json(found)
    assert [row["run"] for row in document["removable"]] == ["a"]
    assert [(row["run"], row["why"]) for row in document["left_alone"]] == [("b", "of root"), ("c", "running")]


def test_what_a_cleanup_kept_has_no_phase(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Leftovers([{**run("a"), "phase": "unknown"}], me="ops"))
    assert capsys.readouterr().out.splitlines() == ["h1: run a attempt 1 of ops: /state/a"]


def test_a_container_and_nothing_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    container = {**run("a"), "id": "0123456789abcdef", "state": "exited"}
    del container["path"]
    _show(Leftovers([], [container]))
    assert capsys.readouterr().out.splitlines() == ["h1: run a attempt 1 of ops: container 0123456789ab (exited)"]
    _show(Leftovers())
    assert capsys.readouterr().out.splitlines() == ["no leftovers of runs"]
    _show(Leftovers(problems={"h2": "unreachable"}))
    assert capsys.readouterr().out.splitlines() == ["no leftovers of runs on the hosts that answered"]


def test_with_yes_nothing_is_to_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Leftovers([run("a")], me="ops"), yes=True)
    assert "repeat" not in capsys.readouterr().err


def test_kept_sources_are_no_leftovers_but_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = Leftovers(sources={"h1": 12_000_000})
    _show(found)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "h1: 12 MB of sources, kept so that later runs send less; --sources removes them",
        "no leftovers of runs",
    ]
    assert captured.err == ""
    _show(found, sources=True)
    assert "repeat the command with --yes" in capsys.readouterr().err
    assert _as_json(found)["sources_bytes"] == {"h1": 12_000_000}


def test_an_empty_name_of_a_run_does_not_mean_all_runs() -> None:
    """`gc --run "$RUN" --yes` removed what all of the user's runs had left."""
    done = CliRunner().invoke(app, ["gc", "-i", "h1,", "--run", "", "--yes"])
    assert (done.exit_code, "--run is empty" in done.stderr) == (64, True)
