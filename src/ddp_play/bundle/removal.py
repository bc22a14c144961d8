"""Removal of bundles. It renames a bundle first, to a hidden name beside it, so that a crash leaves no half bundle."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.bundle import run_locks
from ddp_play.bundle.paths import RunPaths, home, read_json, read_rows, runs_dir
from ddp_play.bundle.removal_plan import DAY_S, BundleRecord, Rules, why_protected
from ddp_play.bundle.run_lookup import Run, never_started
from ddp_play.bundle.verb_paths import VERBS, VerbPaths
from ddp_play.errors import Busy, CheckFailed, DiskFull
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = ".removed-"
START_S = 60.0  # a start writes run.json a moment after it has made the directory
SHOWN = 3  # files or rows that a message names


def record_of(run: Run) -> BundleRecord:
    """What decides about the bundle, from its files."""
    root, document = run.paths.root, run.document
    link = str(root.readlink()) if root.is_symlink() else ""
    problem = run.unreadable or ("" if "status" in document else "its run.json has no status")
    if problem:
        why = run.unknown or f"{problem}: look at it, and remove the directory yourself"
        return BundleRecord(root.name, "unknown", link=link, unreadable=why)
    created = float(document.get("created") or _changed(run.paths.run))
    return BundleRecord(
        root.name,
        str(run.status),
        created=created,
        since=float(document.get("ended") or created),
        final=run.status.final,
        attended=run.attended,
        ranks_may_live=bool(document.get("directories")),
        never_started=never_started(run),
        uncollected=uncollected_text(document),
        artifacts=_has_artifacts(run.paths),
        link=link,
        has_allocation=bool(run.allocation),
    )


def uncollected_text(document: dict[str, Any]) -> str:
    """What run.json lists as not collected or still on hosts; empty if nothing."""
    rows = [f"files of attempt {row.get('attempt')} on {row.get('host')}" for row in _rows(document, "uncollected")]
    rows += [f"{row.get('path')} of {row.get('host') or 'the hosts'}" for row in _rows(document, "missing")]
    rows += [f"files on {host}" for host in sorted(document.get("left_behind") or {})]
    if document.get("exit_class") == DiskFull.kind:
        rows.append("the disk of this machine was full")
    return short_list(rows, SHOWN)


def _rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a list in run.json; whatever else is there stands for something that was not collected."""
    return [row if isinstance(row, dict) else {} for row in document.get(name) or ()]


def _has_artifacts(paths: RunPaths) -> bool:
    return any(
        any("link_to" not in row for row in read_rows(one.artifacts_manifest))
        or (one.artifacts.is_dir() and any(one.artifacts.iterdir()))
        for one in (paths, *paths.attempts)
    )


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def remove(record: BundleRecord, rules: Rules) -> bool:
    """Remove a bundle. False if it is gone already.

    Busy if it may not go any more: it is judged again while no other process can take it up. CheckFailed if files
    cannot be deleted.
    """
    paths = RunPaths.of(record.run)
    try:
        with _held(paths.lock), _held(paths.background_lock):
            document = read_json(paths.run)
            if why := why_protected(record_of(Run(paths, document, attended=False)), rules, now=time.time()):
                raise Busy(f"{record.run} was not removed: {why}")
            hidden = paths.root.with_name(f"{HIDDEN}{record.run}-{secrets.token_hex(4)}")
            paths.root.rename(hidden)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CheckFailed(f"{record.run}: {paths.root}: {error.strerror}") from None
    _unlink_output(document, paths.root)
    _delete(hidden)
    return True


@contextlib.contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Hold a lock of the run; Busy if another process does."""
    with lock.open("a") as handle:
        try:
            run_locks.lock(handle)
        except BlockingIOError:
            raise Busy(f"{lock.parent.name} was not removed: a process works on it") from None
        yield


def _unlink_output(document: dict[str, Any], root: Path) -> None:
    """Remove the link that `run --output` made, if it still leads to this bundle and nothing else."""
    link = str(document.get("output") or "")
    with contextlib.suppress(OSError):  # a link to nowhere does no harm
        if link and os.readlink(link) == str(root):  # noqa: PTH115 - the text of the link, unresolved
            Path(link).unlink()


def half_removed() -> list[Path]:
    """What was left by killed removals, killed starts, and killed commands that waited for a verb in an allocation."""
    starts = (path for path in runs_dir().glob("[!.]*") if never_began(path) and not is_new(path))
    found = [*runs_dir().glob(f"{HIDDEN}*"), *starts, *filter(_is_left, (home() / VERBS).glob("*"))]
    return sorted(path for path in found if path.is_dir() and not path.is_symlink())


def never_began(root: Path) -> bool:
    """Is it a run's directory without anything in it, as a start leaves it that was killed before run.json?"""
    run = RunPaths(root).run
    if run.exists() or root.is_symlink() or not root.is_dir():
        return False
    files = (path.name for path in root.rglob("*") if path.is_symlink() or not path.is_dir())
    return all(name.startswith(f".{run.name}.") for name in files)


def is_new(root: Path) -> bool:
    """May a start still be writing the run.json of this directory?"""
    with contextlib.suppress(OSError):
        return time.time() - root.stat().st_mtime < START_S
    return True


def _is_left(verb: Path) -> bool:
    """Did the command of this directory end without its removal? Its job may still write for some time."""
    paths = VerbPaths(verb)
    with contextlib.suppress(OSError, Busy):
        if time.time() - paths.last_change() < DAY_S:
            return False
        if paths.lock.exists():
            with _held(paths.lock):
                pass
        return True
    return False


def sweep() -> list[str]:
    """Delete what `half_removed` finds. Returns an error text for each that cannot be deleted."""
    errors = []
    for path in half_removed():
        try:
            _delete(path)
        except CheckFailed as error:
            errors.append(error.message)
    return errors


def _delete(hidden: Path) -> None:
    """Delete a renamed bundle; another process may delete it at the same time. Links are not followed."""
    problems: list[str] = []

    def note(_function: Any, path: str, caught: Any) -> None:
        error = caught[1]
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{path}: {getattr(error, 'strerror', '') or error}")

    shutil.rmtree(hidden, onerror=note)
    if problems:
        shown = short_list(problems, SHOWN, separator="; ")
        raise CheckFailed(f"could not delete {shown}; the next rm or prune tries again")
