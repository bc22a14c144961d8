"""Metrics that the ranks reported, as panels of curves: one for each name, all attempts on the time axis of the run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.metric_series import NO_CURVES, as_float
from ddp_play.report.curves import Member, MemberSeries, panel
from ddp_play.report.line_sampling import sampled_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ddp_play.report.run_attempts import Attempt

# What is read of all metrics together. In a larger bundle rows are chosen evenly, which a page says.
BUDGET = 3_000_000
MOST_PANELS, MOST_NAMES = 12, 200
# These come first, then names that contain one of them, then the others by name.
HEADLINES = ("loss", "accuracy", "samples_per_s", "tokens_per_s")
SLACK_S = 3600.0  # how far a host's clock may be from the controller's before its times are not believed


def metric_panels(attempts: Sequence[Attempt], *, end: float, first: Iterable[int] = ()) -> dict[str, Any]:
    """Panels of the metrics, and what was left out. Times are seconds since the run was created, `end` is its end."""
    budget = BUDGET // max(1, sum(len(attempt.ranks) for attempt in attempts))
    found: dict[str, dict[Member, MemberSeries]] = defaultdict(dict)
    is_whole, num_without_time = True, 0
    for attempt in attempts:
        for rank in attempt.ranks:
            lines = sampled_lines(attempt.paths.metrics(rank), budget)
            is_whole &= lines.is_whole
            rows = lines.documents()
            num_without_time += sum(_time(row, attempt) is None for row in rows)
            _add(found, rows, attempt, f"rank {rank}")
    names = sorted(found, key=_order)
    chosen = [f"rank {rank}" for rank in first]
    return {
        "panels": [panel(name, _unit(name), found[name], end, first=chosen) for name in names[:MOST_PANELS]],
        "left_out": names[MOST_PANELS:],
        "is_whole": is_whole,
        "rows_without_time": num_without_time,
    }


def _add(
    found: dict[str, dict[Member, MemberSeries]], rows: Sequence[Mapping[str, Any]], attempt: Attempt, member: str
) -> None:
    """Add the numbers of a rank's rows. Rows without a time are spread evenly over the time of the ranks."""
    for number, row in enumerate(rows):
        time = _time(row, attempt)
        if time is None:
            time = attempt.began + (attempt.ended - attempt.began) * number / max(1, len(rows) - 1)
        for name, value in row.items():
            known = as_float(value)
            if known is None or name in NO_CURVES or len(name) > MOST_NAMES:
                continue
            if name in found or len(found) < MOST_NAMES:
                found[name].setdefault((member, attempt.number), MemberSeries()).add(time, known)


def _time(row: Mapping[str, Any], attempt: Attempt) -> float | None:
    """Seconds since the run was created; None if the row has no time that can be believed."""
    time = as_float(row.get("time"))
    if time is None:
        return None
    seconds = time - attempt.created
    return seconds if attempt.began - SLACK_S <= seconds <= attempt.ended + SLACK_S else None


def _order(name: str) -> tuple[int, str]:
    if name in HEADLINES:
        return HEADLINES.index(name), name
    return len(HEADLINES) + (not any(word in name for word in HEADLINES)), name


def _unit(name: str) -> str:
    if name.endswith("_per_s"):
        return "per second"
    return "s" if name.endswith(("_s", "_seconds", "seconds")) else ""
