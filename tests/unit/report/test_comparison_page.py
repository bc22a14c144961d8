"""The page of a comparison."""

from __future__ import annotations

from ddp_play.bundle.paths import read_json
from ddp_play.bundle.run_lookup import load
from ddp_play.report.comparison import compare
from ddp_play.report.comparison_page import comparison_page
from ddp_play.report.report_data import report_document

from .bundles import ended_bundle
from .hostile import MARKS, hostile_bundle
from .page_reader import PageReader, needs_nothing_else


def test_hostile_texts_stay_texts() -> None:
    runs = [hostile_bundle(), ended_bundle("two")]
    documents = [report_document(load(paths)) for paths in runs]
    text = comparison_page(documents, compare(documents, [read_json(paths.job) for paths in runs]))
    reader = PageReader(text)
    needs_nothing_else(reader)
    assert "script" not in {tag for tag, _ in reader.tags}
    assert not any(mark in text for mark in MARKS)
    assert "differ in" in reader.text
