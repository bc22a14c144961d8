"""Page of lines, a chart and tables, in the look of all pages: what a measurement found. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.report.page_frame import environment, rendered

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a cell. `kind`: fail, warn, pass, dim or nothing; `is_number`: aligned to the right."""

    text: str
    kind: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class TableOfPage:
    """A table with its title; the first cell of each row names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChartOfPage:
    """A chart, and the names of its curves in the order of their colours."""

    title: str
    svg: Markup
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TablePage:
    """What the page says. `state`: pass, warn, fail or unknown."""

    sentence: str
    state: str
    lines: tuple[str, ...]
    about: tuple[str, ...]  # when, with which command, where the bundles are
    tables: tuple[TableOfPage, ...]
    chart: ChartOfPage | None = None


def table_page(page: TablePage) -> str:
    """The page as HTML."""
    return rendered(environment(), "tables.html.j2", page=page)
