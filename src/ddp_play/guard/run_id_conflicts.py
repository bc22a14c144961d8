"""Other runs with the same run id on this host; only one run at a time may have an id.

Files of a namesake have another token and are never changed. They are only found, so that the second run is refused
before it writes anything on the host.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional

from .guard_files import Claim, read_specs
from .guard_link import look
from .host_identity import other_host
from .leases import Lease, hold, holder, message_of, named_owner, slot_scope
from .protocol import split_run_key
from .refusal import Refused
from .run_directory import HostRun, base_dir, bases, read_json, user_name
from .running_guards import guards
from .state_directory import OF_HOST

TAKEN = "name_taken"
HINT = "choose another --name; ddp-play ps -i INVENTORY lists what runs, ddp-play gc -i INVENTORY what was left behind"
# The run's own channel of a moment ago may be about to end.
OWN_CHANNEL_S, POLL_S = 2.0, 0.05


class Namesake(NamedTuple):
    """Another run with the same id. `since` in epoch seconds; `place`: its guard's pid or its directory."""

    alive: bool
    owner: str
    controller: str
    since: float
    place: str


def find(run_id: str, token: str, shared: List[str]) -> List[Namesake]:
    """Every run `run_id` with another token: guards of any user, directories on this host and in `shared`."""
    return [*_living(run_id, token), *_here(run_id, token), *_on_shared(run_id, token, shared)]


def describe_namesake(found: Namesake, run_id: str, now: float) -> str:
    """`run night of kim, started 2 h ago from login2, is running here`."""
    whose = "run %s of %s" % (run_id, found.owner)
    started = ", started %s ago" % _age(now - found.since) if found.since else ""
    origin = "%s from %s" % (started or ", started", found.controller) if found.controller else started
    return "%s%s, %s %s" % (
        whose,
        origin,
        "is running: its guard is" if found.alive else "has files here:",
        found.place,
    )


def _living(run_id: str, token: str) -> Iterator[Namesake]:
    stands_for_a_host = os.environ.get(OF_HOST)  # then guards of other directories count as on other hosts
    claims = {}
    for pid, place in guards().items():
        if _is_namesake(place.run_key, run_id, token) and (not stands_for_a_host or base_dir() in place.root.parents):
            uid = _uid_of(Path("/proc/%d" % pid))
            if uid >= 0:  # it has not ended since it was listed
                claims[pid] = Claim(place, uid)
    specs = read_specs(claims.values())
    for pid, claim in claims.items():
        spec = specs[claim]
        since = spec.get("created") or _changed(Path("/proc/%d" % pid))
        whose = named_owner(str(spec.get("owner") or ""), claim.uid)
        yield Namesake(True, whose, str(spec.get("controller") or ""), float(since), "process %d" % pid)


def _here(run_id: str, token: str) -> Iterator[Namesake]:
    for directory in (entry for base in bases() for entry in _entries(base / "runs")):
        if _is_namesake(directory.name, run_id, token):
            places = [HostRun(place) for place in _entries(directory)]
            if places and all(_is_elsewhere(place) for place in places):
                continue  # other hosts, which share this directory, answer for it
            spec = read_json(places[-1].spec) or {} if places else {}
            whose = str(spec.get("owner") or user_name(_uid_of(directory)))
            since = float(spec.get("created") or _changed(directory))
            yield Namesake(False, whose, str(spec.get("controller") or ""), since, str(directory))


def _is_elsewhere(place: HostRun) -> bool:
    state, alive = look(place)
    return not alive and bool(other_host(place, read_json(place.spec) or {}, state))


def _on_shared(run_id: str, token: str, shared: List[str]) -> Iterator[Namesake]:
    for directory in (entry for parent in shared for entry in _entries(Path(parent))):
        if _is_namesake(directory.name, run_id, token):
            yield Namesake(False, user_name(_uid_of(directory)), "", _changed(directory), str(directory))


def _is_namesake(key: str, run_id: str, token: str) -> bool:
    run, other = split_run_key(key)
    return run == run_id and other != token


def _entries(directory: Path) -> List[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _uid_of(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return "%d %s" % (seconds / size, unit)
    return "%d s" % max(0, seconds)


def hold_name(run_key: str) -> Optional[Lease]:
    """Lease the run id on this host while a run starts. Raises Refused if another controller is starting one.

    None if another channel of the same run has the lease: two hosts of an inventory may be one machine.
    """
    run_id, _ = split_run_key(run_key)
    name, deadline = "run-%s" % run_id, time.monotonic() + OWN_CHANNEL_S
    while True:
        lease = hold(name, slot_scope())
        if lease is not None:
            return lease.answer(run_key.encode())
        if message_of(name, slot_scope()) == run_key.encode():
            return None
        if time.monotonic() > deadline:
            who = holder(name, slot_scope()) or "another process"
            raise Refused("run %s is being started by another controller: %s" % (run_id, who), kind=TAKEN, hint=HINT)
        time.sleep(POLL_S)


def check(run_id: str, token: str, shared: List[str]) -> None:
    """Raise Refused if another run has this id on this host, a running namesake first."""
    why = problem(run_id, token, shared)
    if why:
        raise Refused(why, kind=TAKEN, hint=HINT)


def problem(run_id: str, token: str, shared: List[str]) -> str:
    """Why this run id is taken on this host, a running namesake first; empty if it is free."""
    found = find(run_id, token, shared)
    return describe_namesake(found[0], run_id, time.time()) if found else ""
