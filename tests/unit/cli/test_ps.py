"""The list of runs of `ddp-play ps`."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.run_lookup import newest_runs
from ddp_play.cli import console
from ddp_play.cli.main import app
from ddp_play.cli.ps import _show, _show_hosts
from tests.unit.cli.run_directories import make_run


def ps(*words: str) -> str:
    done = CliRunner().invoke(app, ["ps", *words])
    assert done.exit_code == 0
    return done.stdout


def test_no_runs_name_the_demo() -> None:
    assert "`ddp-play run` starts the demo" in ps()


def test_the_newest_ten_or_all() -> None:
    for number in range(12):
        make_run(f"run-{number}", created=float(number))
    assert [row["run"] for row in json.loads(ps("--json"))["runs"]] == [f"run-{n}" for n in range(11, 1, -1)]
    assert len(json.loads(ps("--json", "-a"))["runs"]) == 12


def test_a_failed_and_an_unattended_run() -> None:
    now = time.time()
    make_run("bad", created=now - 60, ended=now, status="failed", attempt=2, verdict={"message": "rank 1 failed\nmore"})
    make_run("lost", created=now - 120, ended=None, status="running")
    lines = ps().splitlines()
    assert lines[0].split() == ["run", "status", "ranks", "hosts", "age", "took", "size", "why"]
    assert "failed (attempt 2)" in lines[1]
    assert "rank 1 failed" in lines[1]
    assert "running (unattended)" in lines[2]


def test_runs_on_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    ranks = {"0": {"state": "running"}, "1": {"state": "exited"}}
    row = {"inventory_host": "h1", "run": "a", "attempt": 1, "owner": "", "phase": "running", "guard_alive": False}
    _show_hosts([{**row, "ranks": ranks}])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "  h1: a attempt 1 of unknown running, no guard; 0 running, 1 exited"
    )


GOLDEN = Path(__file__).parent / "golden"
LONG = "a-name-of-a-run-that-has-48-characters-as-allowed"[:48]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_no_cell_is_broken_in_a_pipe(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """`ddp-play ps | grep NAME` found half a name at 80 columns."""
    monkeypatch.setenv("COLUMNS", columns)
    make_run(LONG, status="failed", verdict={"message": "rank 1 failed first: " + "a long reason " * 20})
    lines = ps().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(LONG + " ")
    assert lines[1].rstrip().endswith("a long reason")


@pytest.mark.parametrize(("name", "width"), [("night", 80), (LONG, 48 + 80)], ids=["short", "long"])
def test_a_narrow_terminal_does_not_break_names(monkeypatch: pytest.MonkeyPatch, name: str, width: int) -> None:
    terminal = console.SafeConsole(file=io.StringIO(), width=80, force_terminal=True, soft_wrap=True, color_system=None)
    monkeypatch.setattr(console, "out", terminal)
    make_run(name, status="failed", verdict={"message": "rank 1 failed first: " + "a long reason " * 20})
    _show(newest_runs(10))
    assert isinstance(terminal.file, io.StringIO)
    lines = terminal.file.getvalue().splitlines()
    assert lines[1].startswith(name + " ")
    assert len(lines) > 2, "the reason is folded in its column"
    assert max(map(len, lines)) <= width


def test_runs_that_never_started_are_counted_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    make_run("typo", started=None, status="failed", exit_code=64, created=5.0)
    assert "no runs yet" not in ps()
    make_run("good", created=2.0)
    for number in range(10):
        make_run(f"more-{number}", created=3.0 + number / 10)
    newest = newest_runs(10)
    assert (newest.never_started, newest.older) == (1, 1)
    assert "typo" not in ps()
    _show(newest)
    assert capsys.readouterr().err.splitlines() == ["not listed: 1 that never started, 1 older: ddp-play ps --all"]
    assert "typo" in ps("--all")


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_the_list_at_several_widths(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = console.SafeConsole(
        file=io.StringIO(), width=columns, force_terminal=True, soft_wrap=True, color_system=None
    )
    monkeypatch.setattr(console, "out", terminal)
    monkeypatch.setattr(time, "time", lambda: 7203.0)
    message = "rank 1 on h2 failed first: exit code 3"
    make_run("calm-otter-1", status="failed", bundle_bytes=1_234_567, verdict={"message": message})
    make_run("wise-yak-712", created=60.0, ended=3700.0, bundle_bytes=0)
    _show(newest_runs(10))
    assert isinstance(terminal.file, io.StringIO)
    lines = [line.rstrip() for line in terminal.file.getvalue().splitlines()]
    assert "\n".join(lines) + "\n" == (GOLDEN / f"ps-{columns}.txt").read_text(encoding="utf-8")
    assert [line.split()[0] for line in lines if line[:1].strip()] == ["run", "wise-yak-712", "calm-otter-1"]


DAMAGED = {
    '{"status": "dancing", "created": 5.0}': "its run.json has 'dancing' in status",
    '{"status": ["failed"]}': "its run.json has ['failed'] in status",
    '{"status": "failed", "created": "yesterday"}': "its run.json has 'yesterday' in created",
    '{"status": "failed", "hosts": 3, "created": 1}': "its run.json has 3 in hosts",
    '{"status": "failed", "verdict": "bad"}': "its run.json has 'bad' in verdict",
    '{"status": "succeeded"': "its run.json cannot be read as a JSON object",
    "": "its run.json cannot be read as a JSON object",
}


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_run_json_is_listed_with_the_reason_and_the_others_too(content: str) -> None:
    """An unknown word in status ended the command."""
    make_run("good", created=2.0)
    make_run("odd").run.write_text(content, encoding="utf-8")
    rows = {row["run"]: row for row in json.loads(ps("--json"))["runs"]}
    assert rows["good"]["status"] == "succeeded"
    assert (rows["odd"]["status"], rows["odd"]["message"]) == ("unreadable", DAMAGED[content])
    assert rows == {row["run"]: row for row in json.loads(ps("--json", "--all"))["runs"]}
    (line,) = (line for line in ps().splitlines() if line.startswith("odd "))
    assert line.split()[1] == "unreadable"
    assert line.endswith(DAMAGED[content])
    asked = CliRunner().invoke(app, ["results", "odd"])
    assert (asked.exit_code, asked.stderr.splitlines()[0]) == (64, f"error: run odd: {DAMAGED[content]}")


def test_a_run_that_waits_for_an_engine_says_why() -> None:
    paths = make_run("queued", created=time.time(), status="waiting", ended=None, exit_code=None)
    row = {"engine": "slurm", "id": "4", "has_controller": True, "phase": "pending", "asked": time.time() + 60}
    write_json(paths.allocation, {**row, "text": "Resources (the nodes are in use)"})
    (found,) = json.loads(ps("--json"))["runs"]
    assert (found["status"], found["attended"]) == ("waiting", True)
    assert found["message"] == "Resources (the nodes are in use)"
    assert "waiting" in ps()
    assert "unattended" not in ps()


@pytest.mark.parametrize("words", [["-l", "h1"], ["-e", "a=1"], ["-k"]])
def test_options_for_hosts_need_hosts(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["ps", *words])
    assert done.exit_code == 64
    assert "Ansible's options are for hosts, and no inventory was given\n  -> give -i INVENTORY" in done.stderr
