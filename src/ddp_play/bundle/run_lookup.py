"""Lookup of this controller's runs by id, with their status."""

from __future__ import annotations

import bisect
import difflib
import gc
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.format_version import refuse_unknown_format
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, read_json, runs_dir
from ddp_play.bundle.run_locks import is_locked
from ddp_play.errors import InternalError, UsageError
from ddp_play.guard.protocol import protocol_problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Fields of run.json that lists of runs read, with the types that they have if they are there.
SHAPES: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("job", str),
    ("created", (int, float)),
    ("started", (int, float)),
    ("ended", (int, float)),
    ("hosts", list),
    ("attempt", int),
    ("world_size", int),
    ("exit_code", int),
    ("verdict", dict),
)
STATUSES = {str(status): status for status in RunStatus}


def document_problem(document: dict[str, Any]) -> str:
    """Why this run.json tells nothing that could be relied on; empty if it does."""
    if not document:
        return "its run.json cannot be read as a JSON object"
    status = document.get("status", "starting")
    if not isinstance(status, str) or status not in STATUSES:
        return f"its run.json has {_quoted(status)} in status"
    for name, kinds in SHAPES:
        value = document.get(name)
        if value is not None and not isinstance(value, kinds):
            return f"its run.json has {_quoted(value)} in {name}"
    return ""


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


@dataclass(frozen=True, slots=True)
class Run:
    """One run directory at the time of reading.

    `unreadable`: why its run.json tells nothing; empty if it does. Such a run counts as running.
    """

    paths: RunPaths
    document: dict[str, Any]
    attended: bool  # a process on this controller supervises it, or it has or waits for an allocation
    allocation: dict[str, Any] = field(default_factory=dict)  # of a run whose hosts come from an engine
    unreadable: str = field(init=False)
    status: RunStatus = field(init=False)

    def __post_init__(self) -> None:
        unreadable = self.unknown or document_problem(self.document)
        object.__setattr__(self, "unreadable", unreadable)
        status = RunStatus.RUNNING if unreadable else STATUSES[self.document.get("status", "starting")]
        object.__setattr__(self, "status", status)

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
    def unattended(self) -> bool:
        """Has the run lost its supervisor before its end? Its ranks may go on."""
        return not self.status.final and not self.attended

    @property
    def status_text(self) -> str:
        """The status for display, with `(unattended)` if no process supervises the run.

        `unknown` for the format of another version, `unreadable` for a damaged run.json.
        """
        if self.unreadable:
            return "unknown" if self.unknown else "unreadable"
        return f"{self.status} (unattended)" if self.unattended else str(self.status)


def load(paths: RunPaths) -> Run:
    """Read a run. The locks are read first: a run that ends meanwhile then counts as attended, not as unattended."""
    allocation = read_json(paths.allocation)
    attended = is_locked(paths.background_lock) or is_locked(paths.lock)
    if allocation and not attended:
        attended = is_locked(paths.engine_lock)
    document = read_json(paths.run)
    if allocation and not attended:
        attended = not has_ended(document) and allocation.get("phase") != "ended"
    if attended and allocation.get("phase") == "pending" and not has_ended(document):
        document = {**document, "status": str(RunStatus.WAITING)}  # requeued after the loss of its controller
    return Run(paths, document, attended, allocation)


def has_ended(document: dict[str, Any]) -> bool:
    """Does the run.json say that the run has ended?"""
    status = STATUSES.get(str(document.get("status")))
    return status is not None and status.final


def all_runs() -> list[Run]:
    """All runs of this controller, newest first."""
    with _no_garbage():
        found = [run for root in _run_dirs() if (run := _listed(RunPaths(root))).document or _changed(root)]
    return sorted(found, key=_created, reverse=True)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Without Python's collection of garbage: in ten thousand documents it finds none, and takes longer than reading.

    The documents stay as long as the process, so that later collections leave them out, too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def never_started(run: Run) -> bool:
    """Did it end, or was it given up, before a host was prepared: refused for a typo, for want of hosts, or killed?"""
    document = run.document
    if run.unreadable or run.attended or document.get("directories") or document.get("started"):
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
    return _newest(limit, hide=True)


def _newest(limit: int, *, hide: bool) -> NewestRuns:
    unread = sorted((changed, root) for root in _run_dirs() if (changed := _changed(root)))
    listed: list[Run] = []  # oldest first
    num_hidden = num_older = 0
    while unread and (len(listed) < limit or unread[-1][0] > _created(listed[0])):
        run = _listed(RunPaths(unread.pop()[1]))
        if hide and _hidden(run):
            num_hidden += 1
            continue
        bisect.insort(listed, run, key=_created)
        if len(listed) > limit:
            del listed[0]
            num_older += 1
    return NewestRuns(tuple(reversed(listed)), num_hidden, num_older + len(unread))


def _hidden(run: Run) -> bool:
    """It never started, and nothing goes on with it."""
    return run.status.final and never_started(run)


def _created(run: Run) -> float:
    """When it was created; of a run whose run.json does not tell, when that file changed."""
    created = run.document.get("created")
    if isinstance(created, int | float):
        return float(created)
    return _changed(run.paths.root) if run.unreadable else 0.0


def _changed(root: Path) -> float:
    """When run.json changed; 0 if there is none."""
    try:
        return os.stat(root / "run.json").st_mtime  # noqa: PTH116 - ten thousand of them
    except OSError:
        return 0.0


def _run_dirs() -> list[Path]:
    """Directories that may have a run.json. Names with a dot at the front are bundles whose removal did not end."""
    root = runs_dir()
    names = os.listdir(root) if root.is_dir() else []  # noqa: PTH208
    return [root / name for name in names if name[0] != "."]


def _listed(paths: RunPaths) -> Run:
    """A run for a list. The locks of one that has finished are not opened: its playbook has ended."""
    document = read_json(paths.run)
    return Run(paths, document, attended=False) if document.get("finished") is True else load(paths)


def find(run_id: str) -> Run:
    """The run with this id, or the only one whose id begins so; `-` is the newest.

    UsageError if there is none, if another version wrote it in a format that this one does not know, or if its run.json
    is damaged.
    """
    run = load(_find(run_id))
    refuse_unknown_format(run.paths.run_id, run.document)
    if run.unreadable:
        root = run.paths.root
        raise UsageError(
            f"run {run.paths.run_id}: {run.unreadable}", hint=f"look at {root}; logs are in {root / 'logs'}"
        )
    return run


def _find(run_id: str) -> RunPaths:
    if run_id == "-":
        newest = _newest(1, hide=False).runs
        if not newest:
            raise UsageError(f"there are no runs yet under {runs_dir()}", hint="ddp-play run starts the demo")
        return newest[0].paths
    if (exact := RunPaths.of(run_id)).run.exists():
        return exact
    matching = [RunPaths(root) for root in _run_dirs() if root.name.startswith(run_id) and _changed(root)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        runs = sorted(map(_listed, matching), key=_created, reverse=True)
        raise UsageError(
            f"several runs begin with {run_id}: {', '.join(run.paths.run_id for run in runs)}",
            hint="give more of its id",
        )
    if exact.root.is_dir():
        why = f"run {run_id} has no run.json: it is just starting, or its start was killed"
        raise UsageError(why, hint=f"ddp-play rm {run_id} removes what a killed start left")
    raise UsageError(f"no run {run_id} under {runs_dir()}", hint=_other_ids(run_id))


def _other_ids(wanted: str) -> str:
    """Ids that may be meant; where there are none, the verb that asks the hosts."""
    newest = [run.paths.run_id for run in _newest(5, hide=False).runs]
    known = f"the newest are {', '.join(newest)}" if newest else "ddp-play ps -i INVENTORY lists runs on the hosts"
    names = [root.name for root in _run_dirs() if _changed(root)]
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.7)
    return f"did you mean {near[0]}? {known}" if near else known
