"""The page of lines, a chart and tables."""

from __future__ import annotations

from markupsafe import Markup

from ddp_play.report.table_page import Cell, ChartOfPage, TableOfPage, TablePage, table_page

from .hostile import BAD, MARKS
from .page_reader import PageReader, needs_nothing_else


def test_hostile_texts_stay_texts() -> None:
    rows = ((Cell(BAD), Cell(BAD, "fail"), Cell("7", is_number=True)),)
    chart = ChartOfPage(BAD, Markup("<svg></svg>"), (BAD,))
    page = table_page(TablePage(BAD, "fail", (BAD,), (BAD,), (TableOfPage(BAD, (BAD, "b", "c"), rows, BAD),), chart))
    reader = PageReader(page)
    needs_nothing_else(reader)
    kinds = {tag for tag, _ in reader.tags}
    assert "script" not in kinds
    assert "svg" in kinds
    assert not any(mark in page for mark in MARKS)


def test_endless_texts_are_cut() -> None:
    """A message of 10 MB made a page of 10 MB, which no browser shows."""
    endless = "x" * 10_000_000
    rows = ((Cell(endless), Cell(endless, "fail")),)
    page = table_page(TablePage("s", "fail", (endless,), (endless,), (TableOfPage("t", ("a", "b"), rows, endless),)))
    assert len(page) < 500_000
    assert " ... 9950000 more characters" in page


def test_a_page_of_lines_alone() -> None:
    reader = PageReader(table_page(TablePage("All is well", "pass", ("a line",), (), ())))
    assert "All is well" in reader.text
    assert "table" not in {tag for tag, _ in reader.tags}
