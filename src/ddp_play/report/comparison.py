"""Comparison of runs: settings, hosts, versions, phases, throughput and metrics, what differs first. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.summary import counted, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

SECTIONS = ("settings", "hosts", "versions", "environment", "outcome", "time", "phases", "throughput", "metrics")
# Differences of these explain those of the others, so they come first.
CAUSES = frozenset({"settings", "hosts", "versions", "environment"})
TIMES = frozenset({"phases", "time"})
MEASURED = TIMES | {"throughput", "metrics"}
# What differs between any two runs and says nothing: names and places of a run, ports.
OWN = frozenset({"DDP_PLAY_RUN_ID", "DDP_PLAY_METRICS", "DDP_PLAY_RESULT", "TORCHELASTIC_ERROR_FILE", "MASTER_PORT",
                 "DDP_PLAY_SECRETS_DIR"})  # fmt: skip
# Measured values differ always: by less than this part they count as equal, and times by less than these seconds.
NOISE, NOISE_S = 0.02, 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """One thing of all runs; None where a run has none. `change`: of a number, from the first run to the last."""

    section: str
    name: str
    values: tuple[Any, ...]
    differs: bool
    change: float | None = None

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"section": self.section, "name": self.name, "values": list(self.values), "differs": self.differs,
                "change": self.change}  # fmt: skip


def compare(documents: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows of all runs: causes that differ, then results that differ, then what is equal. `jobs`: of job.json."""
    left_open = {name for job in jobs for name, value in job.items() if value in ("auto", "")}
    parts = [_parts(document, job, left_open) for document, job in zip(documents, jobs, strict=True)]
    rows = [
        _row(section, name, tuple(part[section].get(name) for part in parts))
        for section in SECTIONS
        for name in dict.fromkeys(name for part in parts for name in part[section])
    ]
    return sorted(rows, key=lambda row: (not row.differs, row.section not in CAUSES, SECTIONS.index(row.section)))


def _row(section: str, name: str, values: tuple[Any, ...]) -> Row:
    first, last = values[0], values[-1]
    change = None
    if section in MEASURED and all(type(value) in (int, float) for value in (first, last)) and first:
        change = last / first - 1
    differs = any(value != first for value in values[1:])
    if change is not None and None not in values:
        least = NOISE_S if section in TIMES else 0.0
        differs = max(values) - min(values) > max(least, NOISE * max(map(abs, values)))
    return Row(section, name, values, differs, round(change, 4) if change is not None else None)


def _parts(document: Mapping[str, Any], job: Mapping[str, Any], left_open: Set[str]) -> dict[str, dict[str, Any]]:
    run = document["run"]
    phases = document["timeline"]["phase_seconds"]
    return {
        "settings": _settings(document, job, left_open),
        "hosts": dict(_hosts(document)),
        "versions": dict(_versions(document)),
        "environment": _environment(document),
        "outcome": {"status": run["status"], "exit code": run["exit_code"], "attempts": len(run["attempts"])},
        "time": {"seconds in all": run["length"]},
        "phases": {f"seconds {name}": seconds for name, seconds in phases.items()},
        "throughput": dict(_metrics(document, is_rate=True)),
        "metrics": dict(_metrics(document, is_rate=False)),
    }  # fmt: skip


def _settings(document: Mapping[str, Any], job: Mapping[str, Any], left_open: Set[str]) -> dict[str, Any]:
    """The job's settings, and what the plan made of those that a job of the comparison leaves open."""
    found = {f"ddp_job_{name}": _text(value) for name, value in job.items()}
    for name, value in (document["plan"].get("settings") or {}).items():
        if name not in job or name in left_open or name.endswith("_id"):
            found[f"plan: {name}"] = _text(value)
    if source := document["run"]["source"].get("sha256"):
        found["source sha256"] = source[:16]
    return found


def _hosts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    plan = document["plan"].get("hosts") or []
    yield "hosts", ", ".join(sorted(row["host"] for row in plan) or document["run"]["hosts"])
    yield "number of hosts", str(len(plan) or len(document["run"]["hosts"]))
    for row in plan:
        low, high = row["ranks"]
        yield (
            f"host {row['host']}",
            f"{counted(high - low + 1, 'rank')}, {row['interface']}, {counted(len(row['gpus']), 'GPU')}",
        )


def _versions(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    versions = document["versions"]
    for name, value in versions["controller"].items():
        yield f"controller: {name}", value
    names = sorted({name for values in versions["hosts"].values() for name in values})
    for name in names:
        yield f"hosts: {name}", ", ".join(sorted({values.get(name, "-") for values in versions["hosts"].values()}))


def _environment(document: Mapping[str, Any]) -> dict[str, Any]:
    """Variables that are equal in all ranks; the others are the ranks' own."""
    rows = document["environment"]["variables"]
    return {row["name"]: row["values"][0]["value"] for row in rows if row["num_values"] == 1 and row["name"] not in OWN}


def _metrics(document: Mapping[str, Any], *, is_rate: bool) -> Iterator[tuple[str, float]]:
    """Means of rates over all ranks, and last values of the others, of the first rank that has any."""
    for panel in document["metrics"]["panels"]:
        name, rows = panel["title"], panel["rows"]
        if ("per_s" in name) is not is_rate or not rows:
            continue
        if is_rate:
            yield f"{name}, mean", panel["all"]["mean"]
        else:
            yield f"{name}, last", [row for row in rows if row["name"] == rows[0]["name"]][-1]["last"]
            yield f"{name}, least", panel["all"]["low"]


def _text(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def shown(value: Any) -> str:
    """A value for a table."""
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else str(value)


def differences(rows: Sequence[Row]) -> list[Row]:
    """Those that differ, causes first."""
    return [row for row in rows if row.differs]


def verdict(rows: Sequence[Row], names: Sequence[str]) -> str:
    """What differs, in a sentence."""
    causes = [row.name for row in rows if row.differs and row.section in CAUSES]
    runs = " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    if not causes:
        return f"{runs} had the same settings, hosts, versions and environment"
    more = f" and {len(causes) - 4} more" if len(causes) > 4 else ""
    return f"{runs} differ in {', '.join(causes[:4])}{more}"
