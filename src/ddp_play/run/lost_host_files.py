"""Files on hosts that were lost during the run: which attempt's, and their collection at the end or with `attach`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.bundle_size import RECORDED, to_record
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import DdpPlayError
from ddp_play.run.late_collection import LateCollection, LateResult
from ddp_play.run.rank_states import is_about_log
from ddp_play.run.supervisor_lock import supervisor_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ddp_play.run.attempt_assignment import Assignment

# How long hosts of an ended run may take to answer.
OPEN_S = 20.0


class LostHostFiles:
    """What attempts of a run left on hosts. `uncollected` in run.json lists attempts and hosts, also after a crash."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._uncollected = waiting_files(read_json(bundle.paths.run))
        self._uncleaned: dict[int, dict[str, str]] = {}  # attempt -> host that was not cleaned -> reason
        self._kept: dict[tuple[int, str], list[str]] = {}  # (attempt, host) -> rows about directories that stay

    def note_uncleaned(self, attempt: int, hosts: dict[str, str]) -> None:
        """Remember hosts that did not confirm the cleanup of an attempt, each with the reason."""
        if hosts:
            self._uncleaned.setdefault(attempt, {}).update(hosts)

    def note_kept(self, attempt: int, kept: dict[str, list[str]]) -> None:
        """Remember rows about working directories that stay on hosts."""
        self._kept |= {(attempt, host): rows for host, rows in kept.items()}

    def note_uncollected(self, attempt: int, hosts: Iterable[str]) -> None:
        """Store that files of this attempt may be on these hosts."""
        if found := {(attempt, host): WaitingFiles() for host in hosts if (attempt, host) not in self._uncollected}:
            self._store(self._uncollected | found)

    def note_incomplete(self, attempt: int, hosts: dict[str, int]) -> None:
        """Store that these hosts kept files that they could not send, with the limit that would let them."""
        if hosts:
            found = {(attempt, host): WaitingFiles(incomplete=True, limit_mib=mib) for host, mib in hosts.items()}
            self._store(self._uncollected | found)

    def note_cleaned(self, attempt: int, hosts: Iterable[str]) -> None:
        """Store that none of these hosts has files of this attempt, unless rows about kept directories say so."""
        if found := {(attempt, host) for host in hosts} & (self._uncollected.keys() - self._kept.keys()):
            self._store({key: files for key, files in self._uncollected.items() if key not in found})

    def _store(self, found: dict[tuple[int, str], WaitingFiles]) -> None:
        self._uncollected = found
        self._bundle.update_run(uncollected=_rows(found))

    def conclude(
        self,
        assignment: Assignment,
        left: dict[str, list[str]],
        *,
        open_s: float,
        interruption: Callable[[str], str] = lambda _kind: "",
    ) -> None:
        """At the end of the run: collect from hosts of earlier attempts that are back, and list the others in `left`.

        `assignment`: the last attempt, whose own lost hosts are not asked again.
        """
        earlier = self._of_earlier_attempts(assignment.attempt)
        for attempt, hosts in earlier.items():
            before = dataclasses.replace(assignment, attempt=attempt)
            newest = attempt == assignment.attempt
            result = collect_late(
                before, set(hosts), self._bundle, newest=newest, open_s=open_s, interruption=interruption
            )
            for host, why in hosts.items():
                if host in result.collected or host in result.gone:
                    self._kept.pop((attempt, host), None)
                done = host in result.collected or host in result.gone
                if rows := result.left.get(host, []) if done else [why] if why else []:
                    left.setdefault(host, []).extend(rows)
        for (_, host), rows in self._kept.items():
            left.setdefault(host, []).extend(rows)
        if earlier or self._kept:
            self._bundle.update_run(left_behind=left)

    def _of_earlier_attempts(self, last: int) -> dict[int, dict[str, str]]:
        found = {attempt: dict(hosts) for attempt, hosts in self._uncleaned.items()}
        for (attempt, host), files in self._uncollected.items():
            if attempt != last and not files.incomplete:
                found.setdefault(attempt, {}).setdefault(host, "")
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Files of an attempt that a host still has.

    `incomplete`: the host answered and sent all but what `missing` in run.json names. `limit_mib`: with which
    ddp_job_artifacts_max_mib it can send these too; 0: the limit is not the reason.
    """

    incomplete: bool = False
    limit_mib: int = 0

    def to_json(self) -> dict[str, Any]:
        """Fields of a row of `uncollected` in run.json."""
        limit = {"artifacts_max_mib": self.limit_mib} if self.limit_mib else {}
        return {"incomplete": True, **limit} if self.incomplete else {}


def waiting_files(document: dict[str, Any]) -> dict[tuple[int, str], WaitingFiles]:
    """(attempt, host) -> what that host of run.json still has, because it was lost or could not send it."""
    return {
        (int(row["attempt"]), str(row["host"])): WaitingFiles(
            bool(row.get("incomplete")), int(row.get("artifacts_max_mib") or 0)
        )
        for row in document.get("uncollected") or ()
    }


def uncollected(document: dict[str, Any]) -> set[tuple[int, str]]:
    """(attempt, host) of every host of run.json that still has files."""
    return set(waiting_files(document))


def _rows(found: dict[tuple[int, str], WaitingFiles]) -> list[dict[str, Any]]:
    return [{"attempt": key[0], "host": key[1], **found[key].to_json()} for key in sorted(found)]


def collect_late(
    assignment: Assignment,
    hosts: set[str],
    bundle: Bundle,
    *,
    newest: bool,
    open_s: float,
    **more: Any,
) -> LateResult:
    """Collect an attempt's files from the hosts that answer within `open_s`, and record it in run.json.

    `newest`, `more`: as in `LateCollection`. `bundle`: of the run.
    """
    try:
        result = LateCollection(assignment, hosts, newest=newest, **more).run(open_s=open_s)
    except (DdpPlayError, OSError, ValueError) as error:  # the controller's disk is full, or a host sends invalid data
        return LateResult(away=dict.fromkeys(hosts, f"not collected: {error}"))
    if result.collected or result.gone:
        _record(assignment, result, bundle, newest=newest)
    return result


def _record(assignment: Assignment, result: LateResult, bundle: Bundle, *, newest: bool) -> None:
    document = read_json(bundle.paths.run)
    done, attempt = {*result.collected, *result.gone}, assignment.attempt
    before = waiting_files(document)
    incomplete = {host for (number, host), files in before.items() if number == attempt and files.incomplete}
    waiting = {key: files for key, files in before.items() if key[0] != attempt or key[1] not in done}
    waiting |= {(attempt, host): WaitingFiles(True, limit_mib) for host, limit_mib in result.incomplete.items()}
    left = dict(document.get("left_behind") or {})
    for host in done - {host for _, host in waiting}:
        left.pop(host, None)
    fields: dict[str, Any] = {"uncollected": _rows(waiting), "left_behind": {**left, **result.left}}
    if newest:
        fields |= _files_of(document, result, incomplete)
    bundle.update_run(**fields)
    outcome = bundle.paths.attempt(attempt).outcome
    if not newest and (ended := read_json(outcome)):
        write_json(outcome, {**ended, **_files_of(ended, result, incomplete)})
    if RECORDED in document:
        bundle.update_run(**{RECORDED: to_record(bundle.paths.root)})


def _files_of(document: dict[str, Any], result: LateResult, incomplete: set[str]) -> dict[str, Any]:
    """Fields of run.json or outcome.json about files, with those that were collected late.

    `incomplete`: hosts that had sent everything before except files, which were requested again.
    """
    whole = set(result.collected) - set(result.without_logs)
    again = incomplete & set(result.collected)
    missing = [
        row
        for row in document.get("missing") or ()
        if row["host"] not in whole and (row["host"] not in again or is_about_log(row))
    ]
    sizes = result.log_bytes
    ranks = [
        {**row, "log_bytes": sizes[row["rank"]], "log_complete": row["rank"] not in result.damaged}
        if row["rank"] in sizes
        else row
        for row in document.get("ranks") or ()
    ]
    return {"missing": [*missing, *result.missing], "ranks": ranks}


def collect_uncollected(assignment: Assignment, limit_mib: int = 0) -> Iterator[tuple[int, LateResult]]:
    """Collect all that hosts of an ended run still have (`attach`): the result of each attempt, the last one first.

    `assignment`: the last attempt. `limit_mib`: as in `LateCollection`; without it no host is asked that could only
    send the same again. Busy if another process does this.
    """
    bundle = Bundle(assignment.paths)
    with supervisor_lock(assignment.paths):
        found = waiting_files(read_json(assignment.paths.run))
        waiting = {key for key, files in found.items() if limit_mib or not files.limit_mib}
        for attempt in sorted({attempt for attempt, _ in waiting}, reverse=True):
            hosts = {host for number, host in waiting if number == attempt}
            before = dataclasses.replace(assignment, attempt=attempt)
            newest = attempt == assignment.attempt
            yield attempt, collect_late(before, hosts, bundle, newest=newest, open_s=OPEN_S, limit_mib=limit_mib)
