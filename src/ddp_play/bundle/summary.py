"""Text summary of a run at its end, and its table of ranks, from the documents of the bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.network_traffic import traffic_lines
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Iterable

# Two days: up to here hours are easier to compare.
DAYS_FROM_S = 2 * 86400
# Files of one host that are named together as not collected.
MISSING_SHOWN = 5
# Keys of a rank's result.json that the summary shows, in this order.
HEADLINES = ("accuracy", "loss", "epochs", "steps", "samples_per_s", "seconds")


def counted(number: int, what: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def duration(seconds: float) -> str:
    """7 s, 3 min 20 s, 2 h 5 min, 4 d 3 h; -2 h 5 min where a clock was set back meanwhile."""
    whole = round(seconds)
    if whole < 0:
        return f"-{duration(-whole)}"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < DAYS_FROM_S:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def number(value: Any) -> str:
    """A metric for display: four decimals or significant digits, no exponent below ten million, integers unchanged."""
    if not isinstance(value, float):
        return str(value)
    size = abs(value)
    if 1e4 <= size < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}" if size >= 1 or 0 < size < 1e-3 else f"{value:.4f}"


def headline(result: dict[str, Any]) -> str:
    """`accuracy 0.9833  loss 0.0526` from a rank's result; empty if it has none of HEADLINES."""
    return "  ".join(f"{key} {number(result[key])}" for key in HEADLINES if isinstance(result.get(key), int | float))


def summary(paths: RunPaths, document: dict[str, Any]) -> list[str]:
    """Lines that `run` and `results` show at the end: status, verdict, remedy, end of the log, place of the bundle."""
    status = RunStatus(document.get("status", "starting"))
    verdict = document.get("verdict") or {}
    took = ""
    if document.get("ended") and document.get("created"):
        took = f" after {duration(document['ended'] - document['created'])}"
    lines = [f"run {paths.run_id} {status}{took}"]
    lines += [f"  {line}" for line in str(verdict.get("message", "")).splitlines()]
    if status is RunStatus.SUCCEEDED and (text := headline(read_json(paths.result(0)))):
        lines.append(f"  {text}")
    lines += [f"  {line}" for line in attempt_lines(document)]
    if verdict.get("last_frame"):
        lines.append(f"  at {verdict['last_frame']}" + (f": {verdict['error']}" if verdict.get("error") else ""))
    lines += [f"  kernel of {verdict['host']}: {line}" for line in verdict.get("kernel") or ()]
    if verdict.get("hint"):
        lines.append(f"  -> {verdict['hint']}")
    if verdict.get("tail") and status is not RunStatus.SUCCEEDED:
        lines += _tail(paths, verdict)
    if document.get("nccl"):
        lines.append(f"  {document['nccl']['words']}")
    lines += [f"  {line}" for line in traffic_lines(document.get("network") or {})]
    lines += _uncollected_lines(document)
    lines.append(f"  bundle: {document.get('output') or paths.root}")
    return lines


def attempt_lines(document: dict[str, Any]) -> list[str]:
    """One line for each attempt that was followed by another, or could not be."""
    lines = []
    for row in document.get("attempts") or ():
        followed = row["attempt"] < int(document.get("attempt") or 1)
        if not (followed or row["reason"]):
            continue
        reason = row["reason"] if followed else f"no restart: {row['reason']}"
        lines.append(f"attempt {row['attempt']} on {', '.join(row['hosts'])}: {reason}")
        lines += [f"  retired {host}: {why}" for host, why in row["retired"].items()]
    return lines


def _tail(paths: RunPaths, verdict: dict[str, Any]) -> list[str]:
    who = f"{verdict.get('host')}:{verdict.get('rank')}" if verdict.get("rank") is not None else "the log"
    rows = [f"  last lines of {who}:"]
    rows += [f"    | {line}" for line in verdict["tail"]]
    if verdict.get("rank") is not None:
        rows.append(f"  whole log: {paths.log(verdict['rank'])}")
    return rows


def _uncollected_lines(document: dict[str, Any]) -> list[str]:
    """Lines about files that were not collected and about what is still on hosts."""
    lines = [f"  not collected from {row}" for row in missing_files(document)]
    for host, rows in (document.get("left_behind") or {}).items():
        lines.append(f"  still on {host}: {'; '.join(rows)}")
    return lines


def missing_files(document: dict[str, Any]) -> list[str]:
    """For each host and reason which files were not collected: `host: files (why)`, at most MISSING_SHOWN by name."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in document.get("missing") or ():
        found.setdefault((str(row.get("host") or "the hosts"), str(row.get("why"))), []).append(str(row.get("path")))
    return [f"{host}: {short_list(paths, MISSING_SHOWN)} ({why})" for (host, why), paths in found.items()]


def rank_rows(document: dict[str, Any]) -> Iterable[tuple[str, str, str, str]]:
    """(rank, host, state, how it ended) of every rank in run.json."""
    for row in document.get("ranks") or ():
        how = "" if row.get("exit_code") is None else f"exit code {row['exit_code']}"
        yield str(row["rank"]), row["host"], row["state"], row.get("detail") or how
