"""Files on hosts that were lost during the run: which attempt's, and their collection at the end or with `attach`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.bundle_size import RECORDED, to_record
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import DdpPlayError
from ddp_play.run.late_collection import LateCollection, LateResult
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.rank_states import is_about_log
from ddp_play.run.supervisor_lock import supervisor_lock
from ddp_play.run.waiting_files import Key, WaitingFiles, rows_of, waiting_files, worth_asking

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
        self._kept: dict[Key, list[str]] = {}  # (attempt, host) -> rows about directories that stay

    def note_uncleaned(self, attempt: int, hosts: dict[str, str]) -> None:
        """Remember hosts that did not confirm the cleanup of an attempt, each with the reason."""
        if hosts:
            self._uncleaned.setdefault(attempt, {}).update(hosts)

    def note_kept(self, attempt: int, kept: dict[str, list[str]]) -> None:
        """Remember rows about working directories that stay on hosts."""
        self._kept |= {(attempt, host): rows for host, rows in kept.items()}

    def on_kept(self, attempt: int, host: str, rows: list[str]) -> None:
        """A lost host is back and has ended its ranks; its files stay until the end of the run."""
        files = self._uncollected.get((attempt, host))
        self.note_kept(attempt, {host: [] if files is not None and files.incomplete else rows})
        self.note_uncollected(attempt, [host])

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

    def _store(self, found: dict[Key, WaitingFiles]) -> None:
        self._uncollected = found
        self._bundle.update_run(uncollected=rows_of(found))

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
        earlier, named = self._of_earlier_attempts(assignment.attempt), set[Key]()
        for attempt, hosts in earlier.items():
            before = dataclasses.replace(assignment, attempt=attempt)
            newest = attempt == assignment.attempt
            result = collect_late(
                before, set(hosts), self._bundle, newest=newest, open_s=open_s, interruption=interruption
            )
            for host, why in hosts.items():
                done = host in result.collected or host in result.gone
                if done:
                    self._kept.pop((attempt, host), None)
                if done or why:
                    named.add((attempt, host))
                    _extend(left, host, result.left.get(host, []) if done else [why])
        self._name_what_stays(assignment, left, named)
        if earlier or self._kept or self._uncollected:
            self._bundle.update_run(left_behind=left)

    def _name_what_stays(self, assignment: Assignment, left: dict[str, list[str]], named: set[Key]) -> None:
        """Add a row to `left` for all that earlier attempts left on hosts and that is not `named` there."""
        after = LeftFiles.of(assignment.paths.run_id, assignment.routes)
        for key, rows in self._kept.items():
            if rows:
                named.add(key)
                _extend(left, key[1], rows)
        for key, files in sorted(self._uncollected.items()):
            if key not in named and key[0] != assignment.attempt:  # a supervisor that died knew more
                _extend(left, key[1], [after.of_attempt(key[0], files)])

    def _of_earlier_attempts(self, last: int) -> dict[int, dict[str, str]]:
        found = {attempt: dict(hosts) for attempt, hosts in self._uncleaned.items()}
        for (attempt, host), files in self._uncollected.items():
            if attempt != last and not files.incomplete:
                found.setdefault(attempt, {}).setdefault(host, "")
        return dict(sorted(found.items()))


def _extend(left: dict[str, list[str]], host: str, rows: list[str]) -> None:
    if rows:
        left.setdefault(host, []).extend(rows)


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
    left = {host: rows for host, rows in (document.get("left_behind") or {}).items() if host not in done}
    after = LeftFiles.of(assignment.paths.run_id, assignment.routes)
    for host in sorted(done):
        others = {number: files for (number, name), files in waiting.items() if name == host and number != attempt}
        rows = [after.of_attempt(number, files) for number, files in sorted(others.items())]
        _extend(left, host, [*result.left.get(host, []), *rows])
    fields: dict[str, Any] = {"uncollected": rows_of(waiting), "left_behind": left}
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


def collect_uncollected(assignment: Assignment, limit_mib: int = 0, **more: Any) -> Iterator[tuple[int, LateResult]]:
    """Collect all that hosts of an ended run still have (`attach`): the result of each attempt, the last one first.

    `assignment`: the last attempt. `limit_mib`, `more`: as in `LateCollection`; without a limit no host is asked that
    could only send the same again. Busy if another process does this.
    """
    bundle = Bundle(assignment.paths)
    with supervisor_lock(assignment.paths):
        waiting = worth_asking(waiting_files(read_json(assignment.paths.run)), limit_mib)
        for attempt in sorted({attempt for attempt, _ in waiting}, reverse=True):
            hosts = {host for number, host in waiting if number == attempt}
            before = dataclasses.replace(assignment, attempt=attempt)
            newest = attempt == assignment.attempt
            result = collect_late(before, hosts, bundle, newest=newest, open_s=OPEN_S, limit_mib=limit_mib, **more)
            yield attempt, result
