"""The list of bundles that go and stay, and what is asked."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
import typer

from ddp_play.bundle.paths import home
from ddp_play.bundle.removal import record_of
from ddp_play.bundle.removal_plan import DAY_S, Rules, plan_removal
from ddp_play.bundle.run_lookup import all_runs, load
from ddp_play.cli import console
from ddp_play.cli.bundle_removal import Removal, conclude, show
from tests.unit.cli.run_directories import make_run

GOLDEN = Path(__file__).parent / "golden"
NOW = 100 * DAY_S
LONG = "a-name-of-a-run-that-has-48-characters-as-allowed"[:48]


def removal(rules: Rules, *, now: float) -> Removal:
    return Removal.of(plan_removal(map(record_of, all_runs()), rules, now=now), rules)


def several() -> None:
    make_run("calm-otter-1", bundle_bytes=1_234_567)
    make_run(LONG, ended=2 * DAY_S, bundle_bytes=20, status="failed")
    make_run("typo", started=None, status="failed", bundle_bytes=900)
    make_run("young-1", created=NOW - 60, ended=NOW)
    make_run("young-2", created=NOW - 50, ended=NOW)
    make_run("lost", left_behind={"h1": ["/x"]})
    (make_run("trained").artifacts / "h1").mkdir(parents=True)


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_the_list_at_several_widths(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = console.SafeConsole(
        file=io.StringIO(), width=columns, force_terminal=True, soft_wrap=True, color_system=None
    )
    monkeypatch.setattr(console, "out", terminal)
    monkeypatch.setattr(time, "time", lambda: NOW)
    several()
    show(removal(Rules(keep=1, older_than_s=30 * DAY_S), now=NOW))
    assert isinstance(terminal.file, io.StringIO)
    text = "\n".join(line.rstrip() for line in terminal.file.getvalue().splitlines()) + "\n"
    assert text == (GOLDEN / f"prune-{columns}.txt").read_text(encoding="utf-8")
    assert any(line.startswith(LONG) for line in text.splitlines())


@pytest.mark.parametrize(("answer", "left"), [(True, []), (False, ["old"])])
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, answer: bool, left: list[str]) -> None:
    asked: list[str] = []

    def confirm(text: str, *, err: bool) -> bool:
        assert err
        asked.append(text)
        return answer

    monkeypatch.setattr(console, "asks", lambda: True)
    monkeypatch.setattr(typer, "confirm", confirm)
    make_run("old")
    conclude(removal(Rules(), now=NOW), yes=False, as_json=False)
    assert asked == ["Remove 1 bundle for good?"]
    assert [run.paths.run_id for run in all_runs()] == left


def test_nothing_to_remove_asks_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "asks", lambda: pytest.fail("a question"))
    conclude(removal(Rules(), now=NOW), yes=False, as_json=False)
    assert capsys.readouterr().out == "no bundle to remove\n"


def test_one_that_cannot_go_does_not_stop_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    make_run("first")
    make_run("second")
    planned = removal(Rules(), now=NOW)
    make_run("first", left_behind={"h1": ["/x"]})
    with pytest.raises(typer.Exit) as caught:
        conclude(planned, yes=True, as_json=False)
    assert caught.value.exit_code == 1
    captured = capsys.readouterr()
    assert "error: first was not removed: not all was collected or removed: files on h1" in captured.err
    assert captured.out.splitlines()[-1] == "removed 1 bundle"
    assert load(make_run("first")).paths.run.exists()


def test_what_a_killed_removal_left_goes_too() -> None:
    rest = home() / "runs" / ".removed-x-1"
    rest.mkdir(parents=True)
    conclude(removal(Rules(), now=NOW), yes=False, as_json=True)
    assert rest.exists()
    conclude(removal(Rules(), now=NOW), yes=True, as_json=True)
    assert not rest.exists()
