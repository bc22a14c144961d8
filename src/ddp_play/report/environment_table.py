"""Environment of the ranks from their env-files, which hold no secrets: sources, and where ranks differ."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddp_play.report.run_attempts import Attempt

MOST_VALUES = 16  # different values of a variable that are listed
LONGEST_VALUE = 2000
BUDGET = 64 * 1024


def environment(attempt: Attempt) -> dict[str, Any]:
    """Variables of the newest attempt's ranks. `ranks`: how many have an env-file."""
    files = {rank: parse_env_file(text) for rank in attempt.ranks if (text := _read(attempt, rank)) is not None}
    return {"num_ranks": len(files), "variables": variable_rows(files), "secrets": _notes(attempt)}


def _read(attempt: Attempt, rank: int) -> str | None:
    try:
        with attempt.paths.env(rank).open("rb") as file:
            return file.read(BUDGET).decode("utf-8", "replace")
    except OSError:
        return None


def _notes(attempt: Attempt) -> list[str]:
    """Comments about variables that an env-file cannot hold or must not: secrets, several lines."""
    text = _read(attempt, attempt.ranks[0]) if attempt.ranks else None
    lines = (text or "").splitlines()
    return [line[2:] for line in lines if line.startswith("# ") and ("is a secret" in line or "several lines" in line)]


def parse_env_file(text: str) -> dict[str, tuple[str, str]]:
    """Value and source of each variable: templates/rank.env.j2 writes the source as a comment above the line."""
    found: dict[str, tuple[str, str]] = {}
    source = ""
    for line in text.splitlines():
        if line.startswith("#"):
            source = line[1:].strip()
            continue
        name, equals, value = line.partition("=")
        if equals and name:
            found[name] = (value[:LONGEST_VALUE], source)
        source = ""
    return found


def variable_rows(files: Mapping[int, Mapping[str, tuple[str, str]]]) -> list[dict[str, Any]]:
    """A row for each variable: those in which ranks differ first. A rank without it has the value None."""
    names = sorted({name for file in files.values() for name in file})
    rows = []
    for name in names:
        ranks: dict[str | None, list[int]] = defaultdict(list)
        sources = dict.fromkeys(file[name][1] for file in files.values() if name in file)
        for rank, file in sorted(files.items()):
            ranks[file[name][0] if name in file else None].append(rank)
        values = [{"value": value, "ranks": ranges(found)} for value, found in list(ranks.items())[:MOST_VALUES]]
        rows.append({"name": name, "sources": list(sources)[:4], "num_values": len(ranks), "values": values})
    return sorted(rows, key=lambda row: (row["num_values"] == 1, row["name"]))


def ranges(numbers: Iterable[int]) -> str:
    """`0-3, 5`"""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
