"""Cases of `collectives` in which a rank crashed, and the results of the runs that went on after them. Pure.

The trainer names in each rank's result file the case that runs, and keeps the outcomes so far there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from signal import SIGHUP, SIGINT, SIGTERM
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import signal_name
from ddp_play.guard.rank_failure import signal_in
from ddp_play.measuring.measurement_findings import SEVERITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    RankResults = Mapping[int, Mapping[str, Any]]  # rank -> its result file

# A rank wrote the name, and it becomes an argument in variables of Ansible, which would evaluate a template in it.
CASE_NAME = re.compile(r"\w[\w /]{0,63}", re.ASCII)
# Whoever sends one of these asks the process to end; no collective does that.
REQUESTS_TO_END = (SIGHUP, SIGINT, SIGTERM)


@dataclass(frozen=True, slots=True)
class Crash:
    """A rank that ended by a signal while a case ran."""

    case: str
    rank: int
    detail: str
    documented: bool | None
    rest: tuple[str, ...]  # cases of the same run after this one

    def follows(self, earlier: Crash) -> bool:
        """Whether the run after an earlier crash made progress: it crashed in a case that it had left to try."""
        return self.case in earlier.rest and len(self.rest) < len(earlier.rest)

    def to_row(self) -> dict[str, Any]:
        """Its row in a result, as the trainer writes those of other cases."""
        return _row(self.case, "crashed", self.documented, self.detail)


def crash_in(document: Mapping[str, Any], results: RankResults) -> Crash | None:
    """The case that crashed in a run, by its run.json and the result files; None if the run ended in another way."""
    verdict = document.get("verdict") or {}
    row = next((row for row in document.get("ranks") or () if row["rank"] == verdict.get("rank")), None)
    if verdict.get("kind") != "rank_failed" or row is None or not (number := signal_of(row)):
        return None
    result = results.get(row["rank"], {})
    name, cases = str(result.get("running")), documented_cases(result)
    if result.get("status") != "running" or name not in cases:
        return None
    names = list(cases)
    detail = f"rank {row['rank']} on {row['host']} ended by signal {number} ({signal_name(number)})"
    detail += ", out of memory" if row.get("oom") else ""
    return Crash(name, row["rank"], detail, cases[name], tuple(names[names.index(name) + 1 :]))


def signal_of(rank: Mapping[str, Any]) -> int:
    """The signal that ended a rank by itself, also in its exit code; 0 if none did or somebody asked it to end."""
    number = rank.get("signal") or signal_in(rank.get("exit_code")) or 0
    return 0 if rank.get("stopped") or number in REQUESTS_TO_END else number


def documented_cases(result: Mapping[str, Any]) -> dict[str, bool | None]:
    """The cases of a run that a rank lists, in their order, with torch's documentation of each."""
    rows = _rows(result, "cases")
    return {row["name"]: row.get("documented") for row in rows if CASE_NAME.fullmatch(row["name"])}


def rows_before(crash: Crash, results: RankResults) -> list[dict[str, Any]]:
    """The outcomes of the cases before a crash, each the worst of all ranks whose result files are there."""
    found: dict[str, list[dict[str, Any]]] = {}
    for result in results.values():
        for row in _rows(result, "this_rank"):
            if row.get("status") in SEVERITY:
                found.setdefault(row["name"], []).append(_outcome(row))
    # a peer may have gone on behind the case that crashed, or say that torch refused it: its connection was closed
    later = {crash.case, *crash.rest}
    return [worst_row(rows) for name, rows in found.items() if name not in later]


def worst_row(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The most severe outcome of one case, the slowest of equals: the rule of the trainer for outcomes of ranks."""
    return max(rows, key=lambda row: (SEVERITY.index(row["status"]), row.get("seconds") or 0.0))


def merged_result(first: Mapping[str, Any], parts: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """One result of several runs. `first`: a result file of the first run; `parts`: the rows of each run.

    Its status is `incomplete` if no run tried the cases at its end.
    """
    known: dict[str, Mapping[str, Any]] = {}
    for row in (row for rows in parts for row in rows):
        known.setdefault(row["name"], row)
    cases = documented_cases(first)
    rows = [known.get(name) or _row(name, "not run", documented, "") for name, documented in cases.items()]
    kept = {key: first.get(key) for key in ("world_size", "backend", "device", "torch")}
    status = "finished" if cases.keys() <= known.keys() else "incomplete"
    return {**kept, "status": status, "collectives": rows}


def _outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the fields that the trainer writes, whatever is in it."""
    seconds, documented = row.get("seconds"), row.get("documented")
    known = _row(row["name"], row["status"], documented if isinstance(documented, bool) else None, "")
    detail = row.get("detail")
    return {
        **known,
        "detail": detail if isinstance(detail, str) else "",
        "seconds": seconds if isinstance(seconds, int | float) else 0.0,
    }


def _row(name: str, status: str, documented: bool | None, detail: str) -> dict[str, Any]:
    return {"name": name, "status": status, "detail": detail, "seconds": 0.0, "documented": documented}


def _rows(result: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The rows of a list in a result file that have a name; any file may be there in place of the trainer's."""
    rows = result.get(key)
    found = rows if isinstance(rows, list) else []
    return [row for row in found if isinstance(row, dict) and isinstance(row.get("name"), str)]
