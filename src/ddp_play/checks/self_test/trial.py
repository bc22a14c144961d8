"""What a check found of a defect, compared with what it had to find: detected or missed, and false alarms. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.checks.self_test.defect import Wanted, filled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ddp_play.checks.self_test.defect import Defect

DETECTED, MISSED, NOT_MADE, CLEAN, FAILED = "detected", "MISSED", "not made", "clean", "NOT RUN"
AFTER = "after it was mended: "


@dataclass(frozen=True, slots=True)
class Trial:
    """One defect and the check that followed. Of result `clean` nothing was wrong, and `NOT RUN` has no answer."""

    number: int
    defect: str
    where: tuple[str, ...]
    expected: str
    found: str
    result: str
    false_alarms: tuple[str, ...] = ()
    seconds: float = 0.0  # of the check

    @property
    def is_right(self) -> bool:
        """Was it found, and nothing else?"""
        return self.result in (DETECTED, CLEAN, NOT_MADE) and not self.false_alarms

    def to_json(self) -> dict[str, Any]:
        """Row of the document."""
        return {**asdict(self), "where": list(self.where), "false_alarms": list(self.false_alarms)}


def that_count(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The findings of a document of `ddp-play check --json` that say that something is not as it should be."""
    return [row for row in rows if row["result"] in ("fail", "warn") or row["broken"]]


def text_of(row: Mapping[str, Any]) -> str:
    """A finding in a few words: `FAIL ports h2 -> h1`."""
    ways = [(way["from"], way["to"]) for way in row.get("directions", ())]
    return _text(row["check"], row["result"], row["where"], ways)


def _text(check: str, result: str, where: Sequence[str], ways: Sequence[tuple[str, str]]) -> str:
    result = "FAIL" if result == "fail" else "NOT RUN" if result == "not run" else result
    places = ", ".join(f"{start} -> {end}" for start, end in ways) or ", ".join(where)
    return f"{result} {check} {places}"


def wanted_text(defect: Defect) -> str:
    """What must be found, in a few words."""
    rows = [_text(row.check, row.result, row.where, row.ways) for row in defect.wanted]
    return "; ".join(rows) or "nothing"


def where_of(defect: Defect) -> tuple[str, ...]:
    """The hosts that its findings name; all that are checked where none is at fault."""
    return tuple(dict.fromkeys(host for row in defect.wanted for host in row.where)) or defect.hosts


def is_found(wanted: Wanted, row: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Is this the finding: the same check, result, hosts and directions, and what it says?"""
    ways = tuple((way["from"], way["to"]) for way in row.get("directions", ()))
    named = (row["check"], row["result"], tuple(row["where"]), ways)
    right = (wanted.check, wanted.result, wanted.where, wanted.ways)
    return named == right and filled(wanted.says, values) in row["value"]


def judged(defect: Defect, rows: Sequence[Mapping[str, Any]], values: Mapping[str, str], seconds: float) -> Trial:
    """The trial of a defect, from all findings of the check on the hosts that have it."""
    rest, missed = that_count(rows), False
    for wanted in defect.wanted:
        row = next((row for row in rest if is_found(wanted, row, values)), None)
        missed |= row is None
        rest = [other for other in rest if other is not row]
    alarms = tuple(text_of(row) + f": {row['value']}" for row in rest)
    found = "; ".join(text_of(row) for row in that_count(rows)) or "nothing"
    result = MISSED if missed else DETECTED if defect.wanted else CLEAN
    expected = wanted_text(defect)
    return Trial(defect.number, defect.name, where_of(defect), expected, found, result, alarms, round(seconds, 1))


def without(defect: Defect, result: str, why: str) -> Trial:
    """The trial of a defect that could not be made, or whose check could not be run."""
    return Trial(defect.number, defect.name, where_of(defect), wanted_text(defect), why, result)


def alarms_of_clean(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a check of hosts without a defect said."""
    return tuple(text_of(row) + f": {row['value']}" for row in that_count(rows))


def counts(trials: Iterable[Trial], num_mended: int) -> dict[str, int]:
    """Number of trials by result, of checks after a mending, and of false alarms."""
    made = tuple(trials)
    rows = tuple(row for row in made if row.number)
    by_result = Counter(row.result for row in rows)
    return {
        "defects": sum(row.result in (DETECTED, MISSED, CLEAN) for row in rows),
        "kinds": len({row.number for row in rows if row.result in (DETECTED, CLEAN)}),
        "detected": by_result[DETECTED] + by_result[CLEAN],
        "missed": by_result[MISSED],
        "not_made": by_result[NOT_MADE],
        "not_run": sum(row.result == FAILED for row in made),
        "mended": num_mended,
        "false_alarms": sum(len(row.false_alarms) for row in made),
    }
