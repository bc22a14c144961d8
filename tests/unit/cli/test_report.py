"""`ddp-play report`: where the page is written, and the same data as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ddp_play.cli.main import app
from tests.schemas import check
from tests.unit.report.bundles import ended_bundle


def report(*words: str) -> Result:
    return CliRunner().invoke(app, ["report", *words])


@pytest.fixture
def _no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """matplotlib takes a second to import; tests of the page draw."""
    monkeypatch.setattr("ddp_play.cli.report.made_page", lambda document: document["run"]["id"])


@pytest.mark.usefixtures("_no_drawing")
def test_the_page_of_the_newest_run_is_in_its_bundle() -> None:
    paths = ended_bundle()
    done = report()
    assert (done.exit_code, done.stdout.strip()) == (0, str(paths.report))
    assert paths.report.read_text() == "calm-otter-1"


@pytest.mark.usefixtures("_no_drawing")
def test_a_page_elsewhere(tmp_path: Path) -> None:
    paths = ended_bundle()
    done = report("calm", "--output", str(tmp_path / "page.html"))
    assert done.stdout.strip() == str(tmp_path / "page.html")
    assert not paths.report.exists()


@pytest.mark.parametrize(
    ("name", "says"), [("absent/page.html", "mkdir -p"), (".", "is a directory"), ("", "is a directory")]
)
def test_a_place_where_nothing_can_be_written(tmp_path: Path, name: str, says: str) -> None:
    ended_bundle()
    done = report("--output", str(tmp_path / name))
    assert done.exit_code == 64
    assert says in done.stderr


@pytest.mark.usefixtures("_no_drawing")
@pytest.mark.parametrize("path", ["/proc/page.html", "/sys/page.html"])
def test_a_place_that_takes_no_file_is_no_crash(path: str) -> None:
    """Exit code 70, and the wish for a report to the authors."""
    ended_bundle()
    done = report("--output", path)
    assert (done.exit_code, f"{path} cannot be written: " in done.stderr) == (64, True), done.stderr


def test_the_same_data_as_json() -> None:
    ended_bundle()
    document = json.loads(report("--json").stdout)
    check("report", document)
    assert document["run"]["id"] == "calm-otter-1"


def test_no_such_run() -> None:
    assert report("nobody").exit_code == 64


def test_a_page_and_json_exclude_each_other(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", "--json", "--output", str(tmp_path / "page.html")])
    assert (done.exit_code, "--json writes no page" in done.stderr) == (64, True)
