"""Lookup of this controller's runs by id, with their status."""

from __future__ import annotations

import fcntl
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
    root = runs_dir()
    paths = [RunPaths(path) for path in root.iterdir()] if root.is_dir() else []
    found = [load(path) for path in paths if path.run.exists()]
    return sorted(found, key=lambda run: run.document.get("created", 0.0), reverse=True)


def find(run_id: str) -> Run:
    """The run with this id, or the only one whose id begins so; `-` is the newest.

    UsageError if there is none, or if another version wrote it in a format that this one does not know.
    """
    run = _find(run_id)
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
        raise UsageError(f"several runs begin with {run_id}: {', '.join(run.paths.run_id for run in matching)}")
    known = ", ".join(run.paths.run_id for run in runs[:5])
    raise UsageError(
        f"no run {run_id} under {runs_dir()}",
        hint=f"the newest are {known}" if known else "ddp-play ps -i INVENTORY lists runs on the hosts",
    )
