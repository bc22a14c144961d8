"""Screen of `ddp-play top`: hosts with their load, and all runs on them. Pure: answers in, rows out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from ddp_play.bundle.host_load import Load, mean, total
from ddp_play.cli.screen.ranks_page import STATE_STYLES, STATE_TEXTS, load_parts
from ddp_play.cli.screen.styled_rows import (
    BAD,
    BOLD,
    DIM,
    PLAIN,
    TITLE,
    WARN,
    Row,
    clean,
    ends,
    fit,
    joined,
    padded,
    short_age,
    short_bytes,
)

if TYPE_CHECKING:
    from ddp_play.cli.screen.ranks_page import Size

KEYS = (("up down", "scroll"), ("q", "quit"))
WIDE = (("run", 24), ("user", 10), ("slots", 5), ("age", 4), ("cpu", 6), ("mem", 5))
NARROW = (("run", 18), ("user", 10), ("slots", 5), ("age", 4))
NARROW_CELLS = 80
# Least and most cells of the names of hosts, and what stands before a run.
HOST_CELLS, MAX_HOST_CELLS, INDENT = 16, 253, "    "


def fleet_frame(
    hosts: Mapping[str, dict[str, Any]], size: Size, top: int, *, seconds: float | None
) -> tuple[list[Row], int]:
    """All rows of the screen, and the first line of the list that is shown. `seconds`: age of the answers."""
    lines = fleet_lines(hosts, size.width, most_host_cells=size.width // 2)
    height = max(1, size.height - 3)
    top = max(0, min(top, len(lines) - height))
    shown = lines[top : top + height]
    above, below = top, max(0, len(lines) - top - height)
    more = ", ".join(f"{count} {where}" for count, where in ((above, "above"), (below, "below")) if count)
    age = "asking the hosts " if seconds is None else f"{short_age(seconds)} ago " if seconds > 10 else ""
    rows = [ends([(f" {summary(hosts)}", TITLE)], [(age, TITLE)], size.width, TITLE)]
    rows.append(ends([(INDENT + _heads(size.width), DIM)], [(more, DIM)], size.width, DIM))
    rows += [*shown, *([] for _ in range(height - len(shown)))]
    rows.append(joined([[(key, BOLD), (f" {text}", DIM)] for key, text in KEYS], size.width))
    return [fit(row, size.width) for row in rows], top


def _columns(width: int) -> tuple[tuple[str, int], ...]:
    return NARROW if width < NARROW_CELLS else WIDE


def _heads(width: int) -> str:
    return " ".join(padded(name, cells, right=name not in ("run", "user")) for name, cells in _columns(width))


def summary(hosts: Mapping[str, dict[str, Any]]) -> str:
    """`8 hosts  12 of 64 slots held  3 runs  cpu 45/512`."""
    rows = list(hosts.values())
    runs = {(run["run"], run.get("token") or run["user"]) for row in rows for run in row["runs"]}
    parts = [f"{len(rows)} host{'' if len(rows) == 1 else 's'}"]
    if all_slots := total(row["slots"] for row in rows):
        parts.append(f"{sum(map(num_held, rows))} of {all_slots:.0f} slots held")
    parts.append(f"{len(runs)} run{'' if len(runs) == 1 else 's'}")
    if (gpu := mean(host_activity_load(row).gpu for row in rows)) is not None:
        parts.append(f"gpu {gpu:.0f}%")
    if failed := sum(bool(row["problem"]) for row in rows):
        parts.append(f"{failed} without an answer")
    return "  ".join(parts)


def num_held(row: Mapping[str, Any]) -> int:
    """Slots of a host that are held, by runs or by others."""
    return sum(len(run.get("slots") or ()) for run in row["runs"]) + len(row.get("slots_of_others") or ())


def host_activity_load(row: Mapping[str, Any]) -> Load:
    """Load of a host from its answer."""
    gpu = mean(row.get("gpus") or ())
    return Load(row.get("cpu"), row.get("cores"), row.get("memory"), row.get("memory_total"), gpu)


def fleet_lines(hosts: Mapping[str, dict[str, Any]], width: int, *, most_host_cells: int = MAX_HOST_CELLS) -> list[Row]:
    """A line for each host, and below it one for each of its runs. Names are cut where they take more cells."""
    longest = max((cell_len(clean(name)) for name in hosts), default=0)
    cells = max(HOST_CELLS, min(longest, most_host_cells))
    lines: list[Row] = []
    for name, row in hosts.items():
        if row["problem"]:
            lines.append([(padded(name, cells), BOLD), ("  ", PLAIN), (_first_line(row["problem"]), BAD)])
            continue
        lines.append(_host_line(padded(name, cells), row))
        lines += [_run_line(run, _columns(width)) for run in row["runs"]]
        if others := row.get("slots_of_others"):
            lines.append([(f"{INDENT}{', '.join(others)}: held by no run that is visible here", WARN)])
    return lines


def _first_line(text: str) -> str:
    return clean(text.splitlines()[0] if text else "")


def _host_line(name: str, row: Mapping[str, Any]) -> Row:
    slots: Row = [("slots ", DIM), (f"{num_held(row)}/{row['slots']}", BOLD)]
    parts = [slots, *load_parts(host_activity_load(row))]
    line: Row = [(name, BOLD)]
    for part in parts:
        line += [("  ", PLAIN), *part]
    return line


def _run_line(run: Mapping[str, Any], columns: tuple[tuple[str, int], ...]) -> Row:
    cpu, memory = run.get("cpu"), run.get("memory")
    cells = {
        "run": run["run"],
        "user": run["owner"],
        "slots": str(len(run.get("slots") or ())),
        "age": short_age(run["age_s"]),
        "cpu": "" if cpu is None else f"{cpu:.1f}",
        "mem": "" if memory is None else short_bytes(memory),
    }
    texts = (padded(cells[name], width, right=name not in ("run", "user")) for name, width in columns)
    line: Row = [(INDENT + " ".join(texts), PLAIN)]
    if run.get("unreadable"):
        return [*line, ("  ", PLAIN), (f"ranks: {clean(run['unreadable'])}", DIM)]
    for state, count in sorted(run["ranks"].items()):
        line += [("  ", PLAIN), (f"{count} {clean(STATE_TEXTS.get(state, state))}", STATE_STYLES.get(state, PLAIN))]
    return line
