"""Page of a comparison of runs: one HTML file without scripts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.report.comparison import CAUSES, Row, differences, shown, verdict
from ddp_play.report.page_frame import environment, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def comparison_page(documents: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> str:
    """The page. `documents`: of the runs' reports."""
    runs = [document["run"] for document in documents]
    made = environment()
    made.filters["shown"] = shown
    differing = differences(rows)
    groups = (
        ("causes", "What was different", [row for row in differing if row.section in CAUSES]),
        ("results", "What came out differently", [row for row in differing if row.section not in CAUSES]),
        ("equal", "What was equal", [row for row in rows if not row.differs]),
    )
    return rendered(
        made, "comparison.html.j2", runs=runs, groups=groups, verdict=verdict(rows, [run["id"] for run in runs])
    )
