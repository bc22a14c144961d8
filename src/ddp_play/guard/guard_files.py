"""What the files of running guards say: read in processes of their own, because the file system of a home may hang.

A process that hangs there cannot even be killed, so files that do not answer are not read again for a while, which
becomes longer each time: a host under load may have been slow only once.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

from .bounded_reading import read_all
from .untrusted_paths import Below, open_file

if TYPE_CHECKING:
    from .run_directory import HostRun

LIMIT_S, LEAST_PAUSE_S, MOST_PAUSE_S = 2.0, 10.0, 300.0
MAX_SPEC_BYTES, MAX_STATE_BYTES = 64 << 20, 4 << 20
MAX_NAME, MAX_PIDS, MAX_CLAIMS = 200, 1024, 64
MOST_TIME = 1e12  # in seconds; NaN is not below it
STATES = ("created", "running", "exited")


class Claim(NamedTuple):
    """A directory that a process of user `uid` names as its own. `is_known`: its owner is, and is not read again."""

    place: HostRun
    uid: int
    is_known: bool = False


Source = Tuple[int, str]  # what hangs or answers as a whole: see `_source`


class GuardFiles:
    """Readings of the same guards, one after the other."""

    def __init__(self) -> None:
        # By source that did not answer: on the clock of time.monotonic(), and seconds since the last time.
        self._ask_at: Dict[Source, float] = {}
        self._pause_s: Dict[Source, float] = {}

    def read(self, claims: Dict[int, Claim]) -> Dict[int, Dict[str, Any]]:
        """By pid: `owner`, `phase`, `ranks` (how many by state) and `pids`; or `problem`."""
        return self._read(claims, _told)

    def specs(self, claims: Iterable[Claim]) -> Dict[Claim, Dict[str, Any]]:
        """Owner, controller and creation of each attempt that a process names as its own.

        Without them if the file is not that user's, or does not answer.
        """
        rows = dict(enumerate(claims))
        read = {at: claim for at, claim in rows.items() if at < MAX_CLAIMS}
        found = self._read(read, lambda claim: _spec(claim.place, claim.uid))
        return {claim: found.get(at, {}) for at, claim in rows.items()}

    def _read(self, claims: Dict[int, Claim], told_by: Callable[[Claim], Dict[str, Any]]) -> Dict[int, Dict[str, Any]]:
        sources: Dict[Source, Dict[int, Claim]] = {}
        for pid, claim in claims.items():
            sources.setdefault(_source(claim), {})[pid] = claim
        now = time.monotonic()
        asked = {str(at): key for at, key in enumerate(sources) if now >= self._ask_at.get(key, 0.0)}
        answers = read_all({name: (_reading(sources[key], told_by), LIMIT_S) for name, key in asked.items()})
        found: Dict[int, Dict[str, Any]] = {}
        for at, (source, rows) in enumerate(sources.items()):
            answer = answers.get(str(at), {"problem": "no answer within %g s" % LIMIT_S})
            if str(at) in asked:
                self._note(source, hangs="value" not in answer and answer.get("took_s", 0.0) >= LIMIT_S)
            for pid, claim in rows.items():
                told = answer.get("value", {}).get(str(pid))
                found[pid] = (
                    told if told is not None else {"problem": "%s: %s" % (claim.place.root, answer.get("problem"))}
                )
        return found

    def _note(self, source: Source, *, hangs: bool) -> None:
        if not hangs:
            self._pause_s.pop(source, None)
            return
        pause_s = min(MOST_PAUSE_S, 2 * self._pause_s.get(source, LEAST_PAUSE_S / 2))
        self._pause_s[source], self._ask_at[source] = pause_s, time.monotonic() + pause_s


def _source(claim: Claim) -> Source:
    """User and state directory of a claim; of another user only the user, who could claim ever more directories."""
    if claim.uid not in (0, os.geteuid()):
        return claim.uid, ""
    return claim.uid, str(claim.place.base or claim.place.root)


# Of this process, which asks who holds a lease or a name again and again.
_SPECS = GuardFiles()


def read_specs(claims: Iterable[Claim]) -> Dict[Claim, Dict[str, Any]]:
    """`GuardFiles.specs`, with what this process knows of files that did not answer."""
    return _SPECS.specs(claims)


def _reading(rows: Dict[int, Claim], told_by: Callable[[Claim], Dict[str, Any]]) -> Callable[[], Dict[str, Any]]:
    return lambda: {str(pid): _told_alone(claim, told_by) for pid, claim in rows.items()}


def _told_alone(claim: Claim, told_by: Callable[[Claim], Dict[str, Any]]) -> Dict[str, Any]:
    """Files that are something else than all expect hide those of no other guard."""
    try:
        return told_by(claim)
    except Exception as error:  # noqa: BLE001 - a process may claim any directory, with anything in it
        return {"problem": "%s: %s" % (claim.place.root, error)}


def _told(claim: Claim) -> Dict[str, Any]:
    owner = "" if claim.is_known else _spec(claim.place, claim.uid).get("owner", "")
    state = _read(claim.place, claim.place.state.name, claim.uid, MAX_STATE_BYTES)
    if not state:
        return {"owner": owner, "problem": "no state in %s" % claim.place.root}
    ranks = state.get("ranks")
    known: List[Dict[str, Any]] = [row for row in _values(ranks) if isinstance(row, dict)]
    counts = {kind: sum(row.get("state") == kind for row in known) for kind in STATES}
    pids = [row["pid"] for row in known if type(row.get("pid")) is int and row.get("state") == "running"]
    return {
        "owner": owner,
        "phase": str(state.get("phase") or "")[:MAX_NAME],
        "ranks": {kind: count for kind, count in counts.items() if count},
        "pids": pids[:MAX_PIDS],
    }


def _values(ranks: Any) -> List[Any]:
    return list(ranks.values()) if isinstance(ranks, dict) else []


def _spec(place: HostRun, uid: int) -> Dict[str, Any]:
    spec = _read(place, place.spec.name, uid, MAX_SPEC_BYTES)
    found: Dict[str, Any] = {
        name: str(spec[name])[:MAX_NAME] for name in ("owner", "controller") if isinstance(spec.get(name), str)
    }
    created = spec.get("created")
    if isinstance(created, (int, float)) and not isinstance(created, bool) and abs(created) < MOST_TIME:
        found["created"] = created
    return found


def _read(place: HostRun, name: str, uid: int, max_bytes: int) -> Dict[str, Any]:
    try:
        with open_file(Below(place.root, (name,)), uid) as handle:
            value = json.loads(handle.read(max_bytes))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
