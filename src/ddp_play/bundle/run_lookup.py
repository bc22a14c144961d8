"""Lookup of this controller's runs by id, with their status."""

from __future__ import annotations

import difflib
import fcntl
import os
from dataclasses import dataclass
from typing import Any

from ddp_play.bundle.format_version import refuse_unknown_format
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, check_run_id, read_json, runs_dir
from ddp_play.errors import InternalError, UsageError
from ddp_play.guard.protocol import protocol_problem


@dataclass(frozen=True, slots=True)
class Run:
    """One run directory at the time of reading."""

    paths: RunPaths
    document: dict[str, Any]
    attended: bool  # a process on this controller supervises it

    @property
    def status(self) -> RunStatus:
        """The status in run.json. A bundle of a format that this version does not know counts as running."""
        return RunStatus.RUNNING if self.unknown else RunStatus(self.document.get("status", "starting"))

    @property
    def unknown(self) -> str:
        """Which version wrote the bundle, if this one does not know its format; else empty."""
        return protocol_problem(self.document)

    @property
    def exit_code(self) -> int:
        """Exit code of the run; that of an internal error (70) while the bundle has none."""
        code = self.document.get("exit_code")
        return InternalError.exit_code if code is None else int(code)

    @property
    def over(self) -> bool:
        """Have the ranks and the rest of the playbook ended?"""
        return self.status.final and not self.attended

    @property
    def status_text(self) -> str:
        """The status for display, with `(unattended)` if no process supervises the run."""
        if self.unknown:
            return "unknown"
        if self.status.final:
            return str(self.status)
        return str(self.status) if self.attended else f"{self.status} (unattended)"


def load(paths: RunPaths) -> Run:
    """Read a run. The locks are read first: a run that ends meanwhile then counts as attended, not as unattended."""
    attended = is_locked(paths.background_lock) or is_locked(paths.lock)
    return Run(paths, read_json(paths.run), attended)


def is_locked(path: Any) -> bool:
    """Does a process hold this lock?"""
    if not path.exists():
        return False
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def all_runs() -> list[Run]:
    """All runs of this controller, newest first."""
    return sorted(map(_listed, _run_dirs()), key=_created, reverse=True)


def never_started(run: Run) -> bool:
    """Did it end, or was it given up, before a host was prepared: refused for a typo, for want of hosts, or killed?"""
    document = run.document
    if run.unknown or run.attended or document.get("directories") or document.get("started"):
        return False
    return run.status is not RunStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class NewestRuns:
    """The newest runs that started. `never_started`: how many others are newer. `older`: how many are not read."""

    runs: tuple[Run, ...]
    never_started: int = 0
    older: int = 0


def newest_runs(limit: int) -> NewestRuns:
    """The newest runs that started. Of the others as few as possible are opened.

    A run.json is never older than its run: once `limit` runs are newer than every unread file, no unread run counts.
    """
    unread = sorted(((_changed(paths), paths) for paths in _run_dirs()), key=lambda row: (row[0], row[1].root))
    listed: list[Run] = []
    refused: list[Run] = []
    while unread and (len(listed) < limit or unread[-1][0] > _created(listed[limit - 1])):
        run = _listed(unread.pop()[1])
        (refused if _hidden(run) else listed).append(run)
        listed.sort(key=_created, reverse=True)
    older = len(unread) + len(listed[limit:])
    return NewestRuns(tuple(listed[:limit]), len(refused), older)


def _hidden(run: Run) -> bool:
    """It never started, and nothing goes on with it."""
    return run.status.final and never_started(run)


def _created(run: Run) -> float:
    return float(run.document.get("created") or 0.0)


def _changed(paths: RunPaths) -> float:
    try:
        return paths.run.stat().st_mtime
    except OSError:
        return 0.0


def _run_dirs() -> list[RunPaths]:
    """Directories with a run.json. Names with a dot at the front are bundles whose removal did not end."""
    root = runs_dir()
    found = [RunPaths(path) for path in root.iterdir() if path.name[0] != "."] if root.is_dir() else []
    return [paths for paths in found if os.path.exists(paths.run)]  # noqa: PTH110 - ten thousand of them


def _listed(paths: RunPaths) -> Run:
    """A run for a list. The locks of one that has finished are not opened: its playbook has ended."""
    document = read_json(paths.run)
    return Run(paths, document, attended=False) if document.get("finished") is True else load(paths)


def find(run_id: str) -> Run:
    """The run with this id, or the only one whose id begins so; `-` is the newest.

    UsageError if there is none, or if another version wrote it in a format that this one does not know.
    """
    run = load(_find(run_id).paths)
    refuse_unknown_format(run.paths.run_id, run.document)
    return run


def _find(run_id: str) -> Run:
    runs = all_runs()
    if run_id == "-":
        if not runs:
            raise UsageError(f"there are no runs yet under {runs_dir()}", hint="ddp-play run starts the demo")
        return runs[0]
    check_run_id(run_id)
    exact = [run for run in runs if run.paths.run_id == run_id]
    matching = exact or [run for run in runs if run.paths.run_id.startswith(run_id)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"several runs begin with {run_id}: {', '.join(run.paths.run_id for run in matching)}",
            hint="give more of its id",
        )
    raise UsageError(f"no run {run_id} under {runs_dir()}", hint=_other_ids(run_id, [run.paths.run_id for run in runs]))


def _other_ids(wanted: str, ids: list[str]) -> str:
    """Ids that may be meant; where there are none, the verb that asks the hosts."""
    near = difflib.get_close_matches(wanted, ids, n=1, cutoff=0.7)
    newest = f"the newest are {', '.join(ids[:5])}" if ids else "ddp-play ps -i INVENTORY lists runs on the hosts"
    return f"did you mean {near[0]}? {newest}" if near else newest
