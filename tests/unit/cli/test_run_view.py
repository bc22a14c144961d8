"""Which view a run gets: lines wherever there is no screen."""

from __future__ import annotations

import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.cli import console, run_view
from ddp_play.cli.run_view import LinesView, ScreenView, no_screen, open_run_view
from ddp_play.cli.screen.run_screen import RunScreen
from tests.unit.cli.run_directories import make_run


def stop(_now: bool) -> None:
    """Nothing is stopped."""


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert no_screen() == "no terminal"
    assert isinstance(open_run_view(make_run(), ranks="0", joined=False, plain=False, stop=stop), LinesView)


def test_lines_in_ci_and_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = make_run()
    monkeypatch.setattr(console, "asks", lambda: True)
    monkeypatch.setenv("CI", "true")
    assert no_screen() == "CI is set"
    monkeypatch.setattr(run_view, "no_screen", lambda: "")
    assert isinstance(open_run_view(paths, ranks="0", joined=False, plain=True, stop=stop), LinesView)
    assert isinstance(open_run_view(paths, ranks="0", joined=False, plain=False, stop=stop), ScreenView)


def test_what_mattered_stays_after_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(logs=(b"".join(b"line %d\n" % number for number in range(30)),), status="failed", exit_code=3)
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    journal.emit("warning", message="its disk is [bold]nearly[/] full")
    view = ScreenView(RunScreen(paths, stop=stop), "0")
    run = view.follow()
    assert run is not None
    assert run.over
    view.close()
    assert capsys.readouterr().err.splitlines() == [
        "warning: its disk is [bold]nearly[/] full",
        *(f"h1:0: line {number}" for number in range(20, 30)),
        "ranks: 2 not started",
    ]
