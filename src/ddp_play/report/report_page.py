"""Page of a run: one HTML file from the document of its report. Pure; importing it takes a second, for matplotlib."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.network_traffic import bytes_text
from ddp_play.bundle.summary import counted, duration
from ddp_play.provisioning.change_listing import host_ranges
from ddp_play.report.page_frame import environment, rendered
from ddp_play.report.svg_charts import panel_svg, shown, time_text
from ddp_play.report.timeline import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TITLES = (
    *(("verdict", "Verdict"), ("timeline", "Timeline"), ("metrics", "Metrics"), ("samples", "Samples")),
    *(("traffic", "Traffic"), ("ranks", "Ranks"), ("evidence", "Hang"), ("environment", "Environment")),
    *(("events", "Events"), ("logs", "Logs"), ("plan", "Plan"), ("versions", "Versions")),
    *(("artifacts", "Artifacts"), ("missing", "Missing")),
)
ALWAYS = frozenset({"timeline", "versions", "missing"})
NUM_TICKS, TAIL_LINES = 5, 20


def report_page(document: Mapping[str, Any]) -> str:
    """The page of what `report_document` made."""
    length = max(document["timeline"]["length"], 1e-3)
    made = environment()
    made.filters |= _filters(length)
    run = document["run"]
    verdict = {"last_frame": "", "error": "", "kernel": (), **(run["verdict"] or {})}
    panels = {name: document[name]["panels"] for name in ("metrics", "samples")}
    charted = {name: [row for row in rows if not row["is_once"]] for name, rows in panels.items()}
    once = {name: [row for row in rows if row["is_once"]] for name, rows in panels.items()}
    offsets = {"metrics": 0, "samples": len(charted["metrics"])}
    charts = {
        name: [panel_svg(row, length=length, number=offsets[name] + at) for at, row in enumerate(rows)]
        for name, rows in charted.items()
    }
    why, traffic = _why(document, verdict), document["traffic"]["rows"]
    names, groups = version_groups(document["versions"])
    return rendered(
        made, "report.html.j2", script="report.js", **document, charts=charts, verdict=verdict, why=why,
        charted=charted, once=once,
        counts=_counts(document), ticks=_ticks(length), phase_text=_phase_text(document["timeline"]),
        sections=_sections(document, has_verdict=bool(why)), num_attempts=len(run["attempts"]),
        version_names=names, version_groups=groups, opened=_opened(document),
        hardware=hardware_groups(document["samples"]["hosts"]),
        speeds=any(row["speed_mbps"] for row in traffic), small=sum(row["is_small"] for row in traffic),
    )  # fmt: skip


def _filters(length: float) -> dict[str, Any]:
    def percent(seconds: float) -> str:
        return f"{min(100.0, max(0.0, 100 * seconds / length)):.2f}"

    def place(row: Mapping[str, Any]) -> str:
        return f"left:{percent(row['from'])}%;width:{percent(row['to'] - row['from'])}%"

    def names(row: Mapping[str, Any]) -> list[str]:
        return list(dict.fromkeys(curve["name"] for curve in row["curves"]))

    return {
        "percent": percent, "place": place, "names": names, "span": span, "date": date, "counted": counted,
        "bytes": bytes_text, "command": shlex.join, "ranges": host_ranges,
        "value": lambda number, unit: shown(unit)(number),
    }  # fmt: skip


def span(seconds: float) -> str:
    """Seconds for people: two decimals of short ones."""
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def date(seconds: float) -> str:
    """2030-01-02 03:04:05 UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _why(document: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What the first section says beyond the sentence on top; empty if that has said it all."""
    more = str(verdict.get("message") or "").splitlines()[1:]
    is_good, rank = document["run"]["state"] == "pass", verdict.get("rank")
    logs = [row for row in document["logs"] if row["rank"] == rank] if rank is not None and not is_good else []
    tail = "\n".join(logs[0]["lines"][-TAIL_LINES:]) if logs else ""
    says = more or tail or document["run"]["hint"] or any(verdict.get(name) for name in ("last_frame", "kernel"))
    return {"more": more, "tail": tail} if says else {}


def _counts(document: Mapping[str, Any]) -> list[tuple[str, int]]:
    counts = Counter(row["state"] for row in document["ranks"])
    return [(state, counts[state]) for state in STATES if counts[state]]


def _ticks(length: float) -> list[tuple[str, str]]:
    return [
        (f"{100 * at / (NUM_TICKS - 1):.2f}", _tick_text(length * at / (NUM_TICKS - 1), length))
        for at in range(NUM_TICKS)
    ]


def _tick_text(seconds: float, length: float) -> str:
    return f"{seconds:.1f}s" if length < 60 else time_text(round(seconds))


def _phase_text(timeline: Mapping[str, Any]) -> str:
    return ", ".join(f"{row['phase']} {span(row['to'] - row['from'])}" for row in timeline["phases"])


def _sections(document: Mapping[str, Any], *, has_verdict: bool) -> list[tuple[str, str]]:
    there = {
        "verdict": has_verdict, "traffic": document["traffic"]["rows"], "events": document["events"]["rows"],
        "environment": document["environment"]["variables"], "artifacts": document["artifacts"]["rows"],
        **{name: document[name]["panels"] for name in ("metrics", "samples")},
        **{name: document[name] for name in ("ranks", "evidence", "logs", "plan")},
    }  # fmt: skip
    return [(name, title) for name, title in TITLES if name in ALWAYS or there[name]]


def version_groups(versions: Mapping[str, Any]) -> tuple[list[str], list[tuple[list[str], dict[str, str]]]]:
    """Names of what hosts told, and the hosts that told the same together."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for host, values in versions["hosts"].items():
        groups.setdefault(tuple(sorted(values.items())), []).append(host)
    names = sorted({name for values in versions["hosts"].values() for name in values})
    return names, [(hosts, dict(values)) for values, hosts in groups.items()]


def hardware_groups(hosts: Sequence[Mapping[str, Any]]) -> list[tuple[list[str], str]]:
    """Hosts with the same hardware together, and its words: `64 cores, 512 GB, 8 x NVIDIA H100`."""
    groups: dict[str, list[str]] = {}
    for row in hosts:
        groups.setdefault(_hardware(row), []).append(row["host"])
    return [(names, text) for text, names in groups.items() if text]


def _hardware(row: Mapping[str, Any]) -> str:
    texts = [f"{row['cores']:g} cores"] if "cores" in row else []
    if "memory_total" in row:
        texts.append(f"{bytes_text(row['memory_total'])} memory")
    models = Counter(str(gpu.get("name")) for gpu in row.get("gpus", {}).values() if isinstance(gpu, dict))
    return ", ".join([*texts, *(f"{count} x {name}" for name, count in models.items())])


def _opened(document: Mapping[str, Any]) -> list[int]:
    """Ranks whose logs are open: the first that failed."""
    return [row["rank"] for row in document["ranks"] if row["part"] == "cause"][:2]
