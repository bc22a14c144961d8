"""Writing a report: its file, and nothing where the bundle is gone."""

from __future__ import annotations

import gc
import shutil

import pytest

from ddp_play.bundle.run_lookup import load
from ddp_play.report import write_report
from ddp_play.report.write_report import made_document, write_at_end

from .bundles import ended_bundle


@pytest.fixture
def _no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_report, "made_page", lambda document: document["run"]["sentence"])


def test_a_bundle_that_is_removed_meanwhile_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ended_bundle()

    def drawn_while_it_is_removed(_document: object) -> str:
        shutil.rmtree(paths.root)
        return "page"

    monkeypatch.setattr(write_report, "made_page", drawn_while_it_is_removed)
    write_at_end(paths)
    assert not paths.root.exists()


@pytest.mark.usefixtures("_no_drawing")
def test_a_place_that_takes_no_file_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """It was a traceback; the report's name is taken by a directory here."""
    paths = ended_bundle()
    paths.report.mkdir()
    write_at_end(paths)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"no report: {paths.report}: Is a directory")
    assert [path.name for path in paths.root.iterdir() if path.name.startswith(".")] == []


def test_collection_of_garbage_goes_on_afterwards() -> None:
    made_document(load(ended_bundle()))
    assert gc.isenabled()
