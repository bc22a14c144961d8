"""The live view without a terminal: lines from the events and logs of a bundle."""

from __future__ import annotations

import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import write_json
from ddp_play.cli.live_view import View, follow, open_view, show_end
from tests.unit.build import hosts, plan
from tests.unit.cli.run_directories import make_run


def test_events_and_the_chosen_ranks_output(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(logs=(b"loss 2\nlast", b"other\n"), status="running")
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    journal.emit("host", host="h2", state="silent")
    journal.emit("rank", host="h2", rank=1, state="exited", ok=False, stopped=False, how="exited with 3")
    journal.emit("unknown to this version")
    view = View(paths, "0")
    view.refresh()
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["h1:0: loss 2"]
    assert "2 ranks on 2 hosts, gloo over ethernet" in captured.err
    assert "host h2 does not answer; trying again" in captured.err
    assert "h2:1: exited with 3" in captured.err
    assert view.states == {1: "failed"}
    view.refresh(last=True)
    assert capsys.readouterr().out.splitlines() == ["h1:0: last"]


def test_a_restart_reads_the_old_logs_to_their_end_and_names_new_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(logs=(b"one\n",), status="running")
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    view = View(paths, "all")
    view.refresh()
    old = paths.attempt(1)
    old.log(0).parent.mkdir(parents=True)
    old.log(0).write_bytes(b"one\ntwo\n")
    paths.log(0).unlink()
    journal.emit("restart", attempt=2, reason="h2 was lost", retired={"h2": "no answer"}, new=["h3"])
    view.refresh()
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["h1:0: one", "h1:0: two"]
    assert "restarting as attempt 2: h2 was lost" in captured.err
    assert "host h2 is retired: no answer" in captured.err
    assert "replacement host: h3" in captured.err


def test_a_spare_host_in_place_of_an_unfit_one_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(status="preparing")
    view = open_view(paths)
    Journal(paths.events).emit("replaced", hosts={"h2": "shared memory: 16 of 16 MiB free"}, new=["h3"])
    view.refresh()
    told = capsys.readouterr().err
    assert "host h2 is not fit for this job: shared memory: 16 of 16 MiB free" in told
    assert "replacement host: h3" in told


def test_the_view_ends_with_its_run_and_shows_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    run = follow(open_view(make_run(logs=(b"done\n",), status="failed", exit_code=3)))
    assert run.over
    assert show_end(run) == 3
    assert "calm-otter-1" in capsys.readouterr().err


def test_who_joins_later_sees_the_last_lines_and_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(logs=(b"".join(b"line %d\n" % number for number in range(30)),), status="running")
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    journal.emit("host", host="h2", state="silent")
    journal.emit("warning", message="the logs of its ranks cannot be written")
    journal.emit("phase", phase="running")
    view = open_view(paths, joined=True)
    with paths.log(0).open("ab") as log:
        log.write(b"new\n")
    journal.emit("host", host="h2", state="back")
    view.refresh()
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [*(f"h1:0: line {number}" for number in range(20, 30)), "h1:0: new"]
    assert "does not answer" not in captured.err
    assert "cannot be written" in captured.err, "a warning may still hold"
    assert "running; all lines of before: ddp-play logs calm-otter-1" in captured.err
    assert "host h2 is back" in captured.err


def test_a_view_that_was_interrupted_goes_on_where_it_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while events and lines are being shown; none is lost, none is shown again."""
    paths = make_run(logs=(b"one\ntwo\nthree\n",), status="succeeded")
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    for message in ("first", "second"):
        journal.emit("warning", message=message)
    view = open_view(paths)
    shown: list[str] = []

    def interrupt(text: str) -> None:
        shown.append(text)
        if text in ("one", "warning: first"):
            raise KeyboardInterrupt

    monkeypatch.setattr(view, "_print", lambda text, *_, **__: interrupt(text))
    monkeypatch.setattr(view, "_log_line", lambda _rank, line: interrupt(line))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            follow(view)
    follow(view)
    assert [text for text in shown if "warning" in text] == ["warning: first", "warning: second"]
    assert [text for text in shown if text in ("one", "two", "three")] == ["one", "two", "three"]


def test_one_rank_on_one_host(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(status="running")
    write_json(paths.plan, plan(*hosts(1), ranks_per_host=1).to_json())
    Journal(paths.events).emit("phase", phase="preparing")
    View(paths, "0").refresh()
    assert "1 rank on 1 host, " in capsys.readouterr().err


def test_the_queue_of_an_engine_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(status="waiting")
    Journal(paths.events).emit("queue", text="Priority, number 3 of 7 pending in gpu", job="4711")
    View(paths, "0").refresh()
    assert "job 4711: Priority, number 3 of 7 pending in gpu" in capsys.readouterr().err
