"""Results of a run as `ddp-play results` prints them, and its exit code."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from ddp_play.bundle.paths import write_json
from ddp_play.cli.main import app
from tests.schemas import check
from tests.unit.cli.own_process import run_command, unread_pipe
from tests.unit.cli.run_directories import make_run, supervised, write_result


def results(*words: str) -> Result:
    return CliRunner().invoke(app, ["results", *words])


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [("succeeded", 0, 0), ("failed", 3, 3), ("running", None, 75), ("starting", 0, 75), ("failed", None, 70)],
)
def test_the_exit_code_is_the_runs_own_once_it_has_ended(status: str, code: int | None, expected: int) -> None:
    with supervised(make_run(status=status, exit_code=code)):
        assert results().exit_code == expected


def test_a_run_that_lost_its_supervisor_is_told_from_one_that_goes_on() -> None:
    """It was `running` with 75 for ever: a loop that waits for its end did not end."""
    make_run(status="running", token="t", protocol=1, version="1", owner="kim", controller="c")
    shown = results()
    assert shown.exit_code == 70
    assert "error: run calm-otter-1 has no supervisor any more; its ranks may go on" in shown.stderr
    assert "-> ddp-play attach calm-otter-1 takes over" in shown.stderr
    as_json = results("--json")
    assert as_json.exit_code == 70
    assert "no supervisor any more" in as_json.stderr
    document = json.loads(as_json.stdout)
    assert document["status"] == "running"
    check("results", document)


def test_results_logs_and_artifacts_of_all_ranks() -> None:
    paths = make_run()
    write_result(paths, {"accuracy": 0.9}, rank=1)
    write_json(paths.root / "artifacts.json", [{"host": "h1", "path": "model.pt", "size": 7}])
    document = json.loads(results("--json").stdout)
    assert document["results"] == {"0": {}, "1": {"accuracy": 0.9}}
    assert document["logs"]["1"] == str(paths.log(1))
    assert "artifacts/h1/model.pt  7 bytes" in results().stdout


def test_links_among_the_artifacts_are_named() -> None:
    paths = make_run()
    write_json(paths.root / "artifacts.json", [{"host": "h1", "path": "last.ckpt", "link_to": "epoch=3.ckpt"}])
    assert "artifacts/h1/last.ckpt is a link to epoch=3.ckpt, not copied" in results().stdout


def test_how_each_rank_ended() -> None:
    rows = [
        {"rank": 0, "host": "h1", "state": "exited", "exit_code": 0, "detail": ""},
        {"rank": 1, "host": "h1", "state": "exited", "exit_code": 137, "detail": "killed by SIGKILL"},
        {"rank": 2, "host": "h2", "state": "lost", "exit_code": None, "detail": ""},
    ]
    make_run(ranks=rows)
    lines = [line.rstrip() for line in results().stdout.splitlines() if ":" in line and line.startswith("  h")]
    assert lines == ["  h1:0 exit code 0", "  h1:1 killed by SIGKILL", "  h2:2 lost"]


def test_the_report_is_named_once_it_is_there() -> None:
    paths = make_run()
    assert "report:" not in results().stdout
    paths.report.write_text("<html>")
    assert f"  report: {paths.report}" in results().stdout


def test_many_artifacts_are_counted() -> None:
    paths = make_run()
    write_json(paths.root / "artifacts.json", [{"host": "h1", "path": f"{n}", "size": 1} for n in range(25)])
    assert "and 5 more in artifacts.json" in results().stdout


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_reader_that_has_ended_hides_no_failure(words: tuple[str, ...]) -> None:
    """`results | head -1` ended with 1, and with --json with 0."""
    make_run(status="failed", exit_code=3, ranks=[{"rank": 0, "host": "h1", "state": "exited", "exit_code": 3}])
    with unread_pipe() as pipe:
        done = run_command("results", *words, stdout=pipe)
        assert (done.returncode, done.stderr) == (3, b"")
        assert run_command("results", *words, stdout=pipe, stderr=pipe).returncode == 3
