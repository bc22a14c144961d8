"""Page of a check: one HTML file without scripts and without anything from a network. Pure.

Rates between hosts are a table whose cells are coloured, so that a screen reader and a printer have the figures too.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.checks.fleet import names
from ddp_play.checks.host_bars import bar_groups, natural
from ddp_play.checks.pair_samples import CPU_LIMIT
from ddp_play.checks.pair_yardsticks import RTT_SLACK_MS
from ddp_play.checks.record_findings import number
from ddp_play.provisioning.change_listing import host_ranges
from ddp_play.report.page_frame import environment, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.checks.fleet import Fleet

MOST_IN_MAP, MOST_SLOW = 32, 20
# Classes of a cell by its part of the median, from the best. Texts for the legend.
CLASSES = ((0.95, "c0", "at least 95 % of the median"), (0.9, "c1", "90 to 95 %"), (0.82, "c2", "82 to 90 %"),
           (0.5, "c3", "50 to 82 %"), (0.0, "c4", "less than half"))  # fmt: skip
AT_LEAST, NOT_MEASURED = "\N{GREATER-THAN OR EQUAL TO}", "\N{EM DASH}"
ORDER = ("fail", "not run", "warn", "pass")
TITLES = {"fail": "Failed", "not run": "Not run", "warn": "Warnings", "pass": "Passed"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A direction in the map. `kind` is its colour; `text` its figure; `title` all of it."""

    kind: str
    text: str
    title: str


def page(fleet: Fleet, answer: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The page. `answer`: the document of `--json`; `about`: `made`, `took_s` and `command`."""
    made = environment(Path(__file__).with_name("files"))
    made.filters |= {"ranges": host_ranges, "number": number}
    findings = {result: [row for row in answer["findings"] if row["result"] == result] for result in ORDER}
    # what cannot be read on such hosts at all says nothing about them
    findings["not run"].sort(key=lambda row: not row["broken"])
    matrix = answer.get("matrix") or {}
    records = [row for row in answer["records"]["hosts"] if row["state"] in ("compared", "expired")]
    return rendered(
        made, "check.html.j2", answer=answer, about=about, findings=findings, titles=TITLES, verdict=verdict(answer),
        state=state(answer), maps=_maps(matrix), legend=CLASSES, slow=_slowest(matrix), matrix=matrix,
        groups=bar_groups(fleet), records=records,
    )  # fmt: skip


def state(answer: Mapping[str, Any]) -> str:
    """`fail`, `unknown`, `warn` or `pass`: the worst of the findings."""
    results = {row["result"] for row in answer["findings"]}
    if "fail" in results:
        return "fail"
    if any(row["broken"] for row in answer["findings"]):
        return "unknown"
    return "warn" if "warn" in results else "pass"


def verdict(answer: Mapping[str, Any]) -> str:
    """The result in a sentence."""
    hosts, rows = answer["hosts"], answer["findings"]
    failed = sorted({host for row in rows if row["result"] == "fail" for host in row["where"] if host in hosts})
    broken = sum(row["broken"] for row in rows)
    missing = f" {broken} {'check' if broken == 1 else 'checks'} could not be made." if broken else ""
    if failed:
        number = "The host is" if len(hosts) == 1 else f"{len(failed)} of {len(hosts)} hosts"
        text = number if len(hosts) == 1 else f"{number} {'is' if len(failed) == 1 else 'are'}"
        return f"{text} not fit for jobs: {names(failed, 6)}.{missing}"
    if broken:
        return f"Nothing failed, but not everything is known.{missing}"
    warned = sorted({host for row in rows if row["result"] == "warn" for host in row["where"] if host in hosts})
    text = f"{'The host is' if len(hosts) == 1 else f'All {len(hosts)} hosts are'} fit for jobs"
    return f"{text}, with warnings about {names(warned, 6)}." if warned else f"{text}."


def _maps(matrix: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The maps of rate and round trip; none above MOST_IN_MAP hosts, whose pairs are not all measured either."""
    hosts = sorted(matrix.get("hosts", ()), key=natural)
    if not 1 < len(hosts) <= MOST_IN_MAP:
        return []
    rows = {(row["source"], row["target"]): row for row in matrix["directions"]}
    rates = [row["mbps"] for row in rows.values() if row["mbps"]]
    trips = [row["rtt_ms"] for row in rows.values() if row.get("rtt_ms")]
    found = []
    for title, unit, make, values in (("Rate", "Mb/s", _rate, rates), ("Round trip", "ms", _trip, trips)):
        if values:
            median = statistics.median(values)
            table = [(one, [make(one, other, rows.get((one, other)), median) for other in hosts]) for one in hosts]
            found.append({"title": title, "unit": unit, "median": number(median), "hosts": hosts, "rows": table})
    return found


def _kind(share: float) -> str:
    return next(kind for least, kind, _ in CLASSES if share >= least)


def _missing(one: str, other: str, row: Mapping[str, Any] | None) -> Cell | None:
    if one == other:
        return Cell("self", "", "the host itself")
    if row is None or row["mbps"] is None:
        return Cell("none", NOT_MEASURED, f"{one} to {other}: {row['problem'] if row else 'not measured'}")
    return None


def _rate(one: str, other: str, row: Mapping[str, Any] | None, median: float) -> Cell:
    if (cell := _missing(one, other, row)) or row is None:
        return cell or Cell("none", "", "")
    mbps = float(row["mbps"])
    limited = row.get("busy", 0.0) > CPU_LIMIT
    title = f"{one} to {other}: {mbps:,.0f} Mb/s, {mbps / median:.0%} of the median, {row['retransmits']} sent again"
    if limited:
        return Cell(_kind(mbps / median), AT_LEAST + _short(mbps), f"{title}; a CPU was the limit")
    return Cell(_kind(mbps / median), _short(mbps), title)


def _trip(one: str, other: str, row: Mapping[str, Any] | None, median: float) -> Cell:
    if (cell := _missing(one, other, row)) or row is None or not row.get("rtt_ms"):
        return cell or Cell("none", NOT_MEASURED, f"{one} to {other}: not measured")
    trip, slowest = float(row["rtt_ms"]), float(row.get("rtt_p99_ms") or row["rtt_ms"])
    title = f"{one} to {other}: {trip:.3g} ms median, {slowest:.3g} ms 99th percentile"
    # so many milliseconds more are within the limit of the check, whatever the median
    return Cell(_kind(min(1.0, (median + RTT_SLACK_MS) / trip) if trip > median else 1.0), f"{trip:.2g}", title)


def _short(mbps: float) -> str:
    return f"{mbps / 1000:.3g}k" if mbps >= 10_000 else f"{mbps:.0f}"


def _slowest(matrix: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The slowest directions of a fleet that is too large for a map."""
    if len(matrix.get("hosts", ())) <= MOST_IN_MAP:
        return []
    return sorted((row for row in matrix["directions"] if row["mbps"]), key=lambda row: float(row["mbps"]))[:MOST_SLOW]
