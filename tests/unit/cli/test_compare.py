"""`ddp-play compare`: table, JSON and page of the same rows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from ddp_play.bundle.paths import write_json
from ddp_play.cli import console
from ddp_play.cli.compare import _cells, _show
from ddp_play.cli.main import app
from ddp_play.report.comparison import Row
from tests.schemas import check
from tests.unit.report.bundles import ended_bundle


def compare(*words: str) -> Result:
    return CliRunner().invoke(app, ["compare", *words])


@pytest.fixture
def _two_runs() -> None:
    for name, timeout in (("one", 300), ("two", 60)):
        write_json(ended_bundle(name).job, {"command": ["python"], "timeout": timeout})


@pytest.mark.usefixtures("_two_runs")
def test_what_differs_is_a_table() -> None:
    done = compare("one", "two")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "one and two differ in ddp_job_timeout"
    assert lines[2].split() == ["settings", "ddp_job_timeout", "300", "60"]
    assert "ddp_job_command" not in done.stdout
    assert "others are equal; --all shows them" in done.stderr
    assert "ddp_job_command" in compare("one", "two", "--all").stdout


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (("a" * 60, "b"), ["a" * 60, "b"]),
        (("a" * 100, "b"), ["a" * 57 + "...", "b"]),
        (("a" * 100 + "b", "a" * 100 + "c" * 99), ["..." + "a" * 20 + "b", "..." + "a" * 20 + "c" * 34 + "..."]),
        (("a" * 100, "a" * 101), ["..." + "a" * 20, "..." + "a" * 21]),
        (("b" + "a" * 99, "a" * 100), ["b" + "a" * 56 + "...", "a" * 57 + "..."]),
        (("a" * 100 + "b", None), ["a" * 57 + "...", "-"]),
    ],
    ids=["short", "early", "late", "longer", "at once", "absent"],
)
def test_long_values_are_cut_around_what_differs(values: tuple[str | None, ...], cells: list[str]) -> None:
    assert _cells(Row("settings", "name", values, differs=True)) == cells
    assert _cells(Row("settings", "name", ("a" * 100,) * 2, differs=False)) == ["a" * 57 + "..."] * 2


@pytest.mark.usefixtures("_two_runs")
def test_json_and_a_page(tmp_path: Path) -> None:
    done = compare("one", "two", "--json", "--html", str(tmp_path / "page.html"))
    document = json.loads(done.stdout)
    check("compare", document)
    assert [run["id"] for run in document["runs"]] == ["one", "two"]
    assert document["rows"][0]["values"] == ["300", "60"]
    assert "ddp_job_timeout" in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("_two_runs")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["one"], "needs two runs"),
        (["one", "three"], "no run three"),
        (["one", "two", "--html", "/absent/x"], "mkdir -p"),
    ],
)
def test_what_cannot_be_compared(words: list[str], says: str) -> None:
    done = compare(*words)
    assert done.exit_code == 64
    assert says in done.stderr


@pytest.mark.usefixtures("_two_runs")
def test_a_terminal_has_room_for_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=written, force_terminal=True, width=80, color_system=None))
    rows = [Row("hosts", f"host {'x' * 50}", ("a" * 50, "b" * 50), differs=True, change=0.5)]
    _show(["one", "two"], rows, everything=False)
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("+50.0%" in line and "hosts" in line for line in lines) == 1
