"""Ctrl-C, the stop request and the wait for slots of `ddp-play run`."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from typer.testing import CliRunner

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.bundle.run_lookup import Run, load
from ddp_play.cli import engine_start, live_view, run
from ddp_play.cli.main import app
from ddp_play.cli.run_view import open_run_view
from ddp_play.errors import InternalError, Interrupted, UsageError
from tests.unit.cli.run_directories import make_run


@pytest.mark.parametrize(("text", "seconds"), [("", "inf"), ("90s", "90.0"), ("10m", "600.0")])
def test_the_wait_for_slots_in_seconds(text: str, seconds: str) -> None:
    assert run._seconds_to_wait(text) == seconds


def test_a_wait_that_is_no_duration() -> None:
    with pytest.raises(UsageError, match="--wait-at-most"):
        run._seconds_to_wait("soon")


@pytest.mark.parametrize(("now", "name"), [(False, "stop"), (True, "stop-now")])
def test_a_stop_request_is_a_file_for_the_supervisor(now: bool, name: str) -> None:
    paths = make_run(status="running")
    run.request_stop(paths, now=now, reason="a test")
    assert [path.name for path in paths.control.iterdir()] == [name]
    assert read_json(paths.control / name) == {"reason": "a test"}


def test_an_ended_run_takes_no_stop_request() -> None:
    with pytest.raises(Interrupted, match="calm-otter-1 is over"):
        run.request_stop(make_run(), now=False, reason="a test")


@pytest.mark.parametrize(("answer", "stops"), [("d", False), ("detach", False), ("s", True), ("", True), (None, True)])
def test_only_d_detaches(monkeypatch: pytest.MonkeyPatch, answer: str | None, stops: bool) -> None:
    def typed(_prompt: str) -> str:
        if answer is None:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr("builtins.input", typed)
    assert run._user_wants_stop(make_run(status="running")) is stops


def test_a_run_without_a_supervisor_ends_the_view_with_70() -> None:
    text = "run calm-otter-1 has no supervisor any more; its ranks may go on"
    with pytest.raises(InternalError, match=text) as found:
        run.print_end(load(make_run(status="running")), as_json=False)
    assert (found.value.exit_code, found.value.hint) == (70, "ddp-play attach calm-otter-1 takes over")


def test_an_ended_run_gives_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.watch(make_run(status="failed", exit_code=3), ranks="0", as_json=True) == 3
    assert '"exit_code": 3' in capsys.readouterr().out


def test_ctrl_c_at_the_end_of_a_run_shows_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    follow, calls = live_view.follow, []

    def interrupted_once(view: live_view.View) -> Run:
        calls.append(view)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return follow(view)

    monkeypatch.setattr(live_view, "follow", interrupted_once)
    assert run.watch(make_run(status="failed", exit_code=3), ranks="0") == 3
    assert "run calm-otter-1 failed after 2 s" in capsys.readouterr().err


def test_ctrl_c_while_the_view_is_loaded_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the command, and the run or its job in the queue went on."""
    asked: list[dict[str, Any]] = []

    def interrupted_once(*args: Any, **options: Any) -> Any:
        if not asked:
            raise KeyboardInterrupt
        return open_run_view(*args, **options)

    monkeypatch.setattr("ddp_play.cli.run.open_run_view", interrupted_once)
    monkeypatch.setattr("ddp_play.cli.run.request_stop", lambda _paths, **order: asked.append(order))
    assert run.watch(make_run(status="stopped", exit_code=130), ranks="0") == 130
    assert asked == [{"now": False, "reason": "interrupted with Ctrl-C"}]


def test_ctrl_c_before_the_view_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first line was printed it ended the command, and the run went on."""
    asked: list[dict[str, Any]] = []

    def interrupted(_paths: RunPaths) -> None:
        if not asked:
            raise KeyboardInterrupt

    monkeypatch.setattr("ddp_play.cli.run.request_stop", lambda _paths, **order: asked.append(order))
    assert run.watch(make_run(status="stopped", exit_code=130), ranks="0", opening=interrupted) == 130
    assert asked == [{"now": False, "reason": "interrupted with Ctrl-C"}]


def test_sigterm_interrupts_like_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        run.stop_on_term()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_sigterm_while_a_run_is_submitted_interrupts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that has just been submitted would otherwise start although CI has given it up."""

    def submit(*_arguments: object, **_options: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(engine_start.EngineOptions, "submit", submit)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert CliRunner().invoke(app, ["run", "--on", "slurm"]).exit_code == 130
    finally:
        signal.signal(signal.SIGTERM, before)


def test_files_on_a_node_whose_allocation_is_over_are_named_and_not_asked_for() -> None:
    paths = make_run(status="failed", exit_code=69, uncollected=[{"attempt": 1, "host": "n3"}])
    paths.engine.mkdir()
    write_json(paths.allocation, {"engine": "slurm", "id": "26", "has_controller": True, "phase": "ended"})
    done = CliRunner().invoke(app, ["attach", "calm-otter-1"])
    assert done.exit_code == 69
    assert "n3: not collected, and slurm job 26, through which it was reached, is over" in " ".join(done.stderr.split())
