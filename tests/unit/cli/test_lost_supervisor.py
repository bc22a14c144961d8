"""The error of a run that has no supervisor any more."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ddp_play.bundle.run_lookup import load
from ddp_play.cli import stop
from ddp_play.cli.lost_supervisor import refuse_unattended
from ddp_play.cli.main import app
from ddp_play.errors import InternalError
from tests.unit.cli.run_directories import make_run, supervised


@pytest.mark.parametrize(("started", "ranks"), [(2.0, "; its ranks may go on"), (None, "")])
def test_ranks_are_named_if_there_may_be_any(started: float | None, ranks: str) -> None:
    run = load(make_run(status="running", started=started))
    with pytest.raises(InternalError) as caught:
        refuse_unattended(run)
    assert caught.value.message == f"run calm-otter-1 has no supervisor any more{ranks}"
    assert caught.value.hint == "ddp-play attach calm-otter-1 takes over"


def test_a_run_that_has_ended_or_goes_on_is_not_refused() -> None:
    refuse_unattended(load(make_run(status="failed")))
    live = make_run("live", status="running")
    with supervised(live):
        refuse_unattended(load(live))


def test_a_stop_whose_new_supervisor_died_too_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """It exited with 0, as if the run had ended."""
    monkeypatch.setattr(stop, "start_background", lambda *_words, **_more: "")
    make_run(status="running")
    done = CliRunner().invoke(app, ["stop", "calm-otter-1"])
    assert done.exit_code == 70
    assert "run calm-otter-1 has no supervisor any more; its ranks may go on" in done.stderr
