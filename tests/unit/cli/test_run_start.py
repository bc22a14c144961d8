"""Start of a run that is interrupted: all of it or nothing, and a signal that somebody ignores stays ignored."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.bundle.paths import RunPaths, runs_dir
from ddp_play.cli import run_start
from ddp_play.errors import Interrupted

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = PlaybookRequest("/job.yml", ("/inv",), "/")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_before_the_background_process_leaves_no_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    create = RunPaths.create

    def interrupted(paths: RunPaths) -> None:
        create(paths)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(RunPaths, "create", interrupted)
    monkeypatch.setattr(run_start, "start_background", lambda *_: pytest.fail("it was started"))
    with pytest.raises(Interrupted, match="before run night was started: nothing was started or kept"):
        run_start.start_run(REQUEST, Passwords(), name="night", output=tmp_path / "results")
    assert list(runs_dir().iterdir()) == []
    assert not (tmp_path / "results").is_symlink()


@pytest.mark.parametrize("comes", [True, False])
def test_an_interrupt_of_a_run_that_was_started_is_told(monkeypatch: pytest.MonkeyPatch, comes: bool) -> None:
    def start(_paths: RunPaths, _passwords: Passwords) -> str:
        if comes:
            os.kill(os.getpid(), signal.SIGTERM)
        return ""

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(run_start, "start_background", start)
    started = run_start.start_run(REQUEST, Passwords(), name="night", output=None)
    assert (started.paths.run.exists(), started.interrupted) == (True, comes)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with run_start.held_interrupts() as held:
            os.kill(os.getpid(), signal.SIGINT)
        assert not held.came
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
