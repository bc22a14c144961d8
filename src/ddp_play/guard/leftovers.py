"""Attempts on this host, and their removal by exact id."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import processes, secret_files
from .format_check import REMEDY, format_problem
from .guard_link import look, same_boot
from .host_identity import other_host
from .leftover_containers import names_in, remove_containers
from .protocol import split_run_key
from .run_directory import HostRun, bases, read_json
from .tree_removal import remove
from .uncollected_files import may_be_uncollected
from .untrusted_paths import locate, open_file

# File in a run's shared directory with the number of the attempt that prepared it last.
ATTEMPT_MARK = ".attempt"
MARK_BYTES = 20
KILL_S = 5.0
# Pid and start time in ticks.
Process = Tuple[int, Optional[int]]


def runs() -> List[Dict[str, Any]]:
    """One row per attempt directory on this host."""
    found = []
    for root in (base / "runs" for base in bases()):
        for run_dir in sorted(root.iterdir()) if root.is_dir() else []:
            found += [_row(HostRun(place)) for place in (sorted(run_dir.iterdir()) if run_dir.is_dir() else [])]
    return found


def _row(place: HostRun) -> Dict[str, Any]:
    """An attempt, its state, and who uses it. `elsewhere`: the host that it belongs to, if that is not this one."""
    run, token = split_run_key(place.run_key)
    state, alive = look(place)
    unknown = format_problem(place, state)
    state = {"phase": "unknown"} if unknown else state
    spec = read_json(place.spec) or {}
    return {
        "run": run,
        "token": token,
        "attempt": place.attempt,
        "host": place.root.name.partition(".")[2],
        "path": str(place.root),
        "phase": state.get("phase", "unknown"),
        "reason": state.get("reason", ""),
        "guard_alive": alive,
        "unknown": unknown,
        "attended": place.attended(),
        "uncollected": may_be_uncollected(place, state),
        "elsewhere": "" if alive else other_host(place, spec, state),
        "owner": spec.get("owner", ""),
        "controller": spec.get("controller", ""),
        "ranks": {
            rank: {k: row.get(k) for k in ("state", "exit_code", "signal", "pid", "container")}
            for rank, row in (state.get("ranks") or {}).items()
        },
        "since": spec.get("created", 0),
    }


def stop_guard(state: Dict[str, Any], grace_s: float = 5.0) -> None:
    """Send SIGTERM to a guard, which then stops its ranks, and SIGKILL after `grace_s`."""
    pid, ticks = int(state.get("guard_pid") or 0), state.get("guard_ticks")
    if not ticks or not same_boot(state) or not processes.signal_exactly(pid, ticks, signal.SIGTERM):
        return
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and processes.alive(pid, ticks):
        time.sleep(0.05)
    processes.signal_exactly(pid, ticks, signal.SIGKILL)


def _stop_ranks(state: Dict[str, Any]) -> List[str]:
    """Kill torchrun and rank processes that outlived their guard; return a message per process that did not end.

    First processes of containers too: an engine that does not answer removes none.
    """
    if not same_boot(state):
        return []
    killed = [("torchrun", process) for process in _kill_tree(state.get("agent") or {})]  # it would start ranks
    for rank, row in (state.get("ranks") or {}).items():
        kill = _kill_tree if row.get("by_apptainer") else _kill
        killed += [("rank %s" % rank, process) for process in kill(row)]
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline and any(processes.alive(*process) for _, process in killed):
        time.sleep(0.02)
    return [
        "%s: process %d did not end after SIGKILL" % (name, process[0])
        for name, process in killed
        if processes.alive(*process)
    ]


def _kill(row: Dict[str, Any]) -> List[Process]:
    """Kill the process of a row and its group; return it, unless it had ended."""
    pid, ticks = row.get("pid"), row.get("ticks")
    if not pid or not ticks:
        return []  # a pid without a start time may belong to another process
    with contextlib.suppress(PermissionError):  # in a container, which the engine removes
        if processes.signal_exactly(int(pid), ticks, signal.SIGKILL, group=not row.get("container")):
            return [(int(pid), ticks)]
    return []


def _kill_tree(row: Dict[str, Any]) -> List[Process]:
    """Kill a process with all that it has started; return what was killed.

    A rank of torchrun leads a group of its own, and so does a program that mounts an image for Apptainer.
    """
    found: Dict[int, Optional[int]] = {}
    pid, ticks = row.get("pid"), row.get("ticks")
    if pid and ticks and not row.get("container") and processes.signal_exactly(int(pid), ticks, signal.SIGSTOP):
        while new := [below for below in processes.descendants(int(pid)) if below not in found]:
            found.update((below, processes.start_ticks(below)) for below in new)
            for below in new:
                with contextlib.suppress(PermissionError):  # a program with set-uid, which is then named
                    processes.signal_exactly(below, found[below], signal.SIGKILL)
    return [*found.items(), *_kill(row)]


def end_ranks(place: HostRun) -> List[str]:
    """Kill what outlived the guard of an attempt, and remove nothing; return a message per process that did not end."""
    state, alive = look(place)
    return [] if alive else _stop_ranks(state)


class Cleaned(NamedTuple):
    """Messages about what could not be removed, and those of them that are about ranks which may go on.

    Where it cannot be read which ranks there are, these are all.
    """

    left: List[str]
    alive: List[str]


def clean(
    place: HostRun,
    *,
    keep_src: bool = False,
    keep: Sequence[str] = (),
    run_paths: Optional[List[str]] = None,
    by_guard: bool = False,
) -> Cleaned:
    """Remove all of one attempt from this host.

    If anything is left, spec.json and state.json stay, so that a later call knows the ranks and containers.
    `keep_src`: keep the working directory, and what `keep` names in the attempt's directory. `run_paths`: which
    directories shared by all attempts to remove; None: all of them on the head of a first attempt, else none.
    `by_guard`: the caller is the guard, before any rank started.
    Removes nothing of an attempt whose format it does not know.
    """
    state = {} if by_guard else look(place)[0]
    if why := "" if by_guard else format_problem(place, state):
        unknown = ["%s: left alone; %s" % (why, REMEDY)]
        return Cleaned(unknown, unknown)
    spec = read_json(place.spec) or {}
    if not by_guard:
        stop_guard(state)
    living = [*([] if by_guard else _stop_ranks(state)), *remove_containers(names_in(spec))]
    left = [*living, *_remove_elsewhere(place, spec, run_paths, keep=keep_src)]
    records = [place.spec, place.state] if left else []
    if keep_src and kept(place, keep):
        left += _keep_only(place, [place.src, place.spec, *records, *_output(place, keep)])
    else:
        left += _keep_only(place, records) if left else _remove_tree(place.root)
    with contextlib.suppress(OSError):
        place.root.parent.rmdir()  # if this was the last attempt in it
    return Cleaned(left, living if spec and state else left)


def _remove_elsewhere(place: HostRun, spec: Dict[str, Any], run_paths: Optional[List[str]], *, keep: bool) -> List[str]:
    """Remove what an attempt has outside of its directory."""
    left = [row for extra in spec.get("owned_paths", ()) for row in _remove_tree(Path(extra))]
    left += filter(None, [secret_files.remove(place.secrets)])
    of_head = spec.get("run_paths", []) if spec.get("head") and not spec.get("continues") else []
    return left + _remove_run_paths(place, of_head if run_paths is None else run_paths, keep=keep)


def newest_attempt(run_path: Path) -> int:
    """Number of the last attempt that prepared a shared directory of a run; 0 if unknown."""
    try:
        with open_file(locate(run_path / ATTEMPT_MARK)) as mark:
            return int(mark.read(MARK_BYTES))
    except (OSError, ValueError):
        return 0


def _remove_run_paths(place: HostRun, run_paths: List[str], *, keep: bool) -> List[str]:
    """Remove shared directories of the run, unless a later attempt uses them (a lost host came back)."""
    left: List[str] = []
    for path in map(Path, () if keep else run_paths):
        if newest_attempt(path) <= place.attempt:
            left += _remove_tree(path)
    return left


def kept(place: HostRun, keep: Sequence[str] = ()) -> List[str]:
    """Directories that exist after `clean(keep_src=True, keep=keep)`: working directories, and those of `keep`."""
    spec = read_json(place.spec) or {}
    paths = (str(place.src), *spec.get("run_paths", ()), *(str(place.root / name) for name in keep))
    return [path for path in paths if os.path.isdir(path)]


def _output(place: HostRun, keep: Sequence[str]) -> List[Path]:
    """What is named in `keep`; with the logs also what else is needed to collect them later."""
    paths = [place.root / name for name in keep]
    return [*paths, place.state, place.samples, place.file_starts] if place.logs in paths else paths


def _keep_only(place: HostRun, kept_paths: List[Path]) -> List[str]:
    """Remove all but `kept_paths` from the directory of an attempt, if there is one."""
    left = []
    for entry in place.root.iterdir() if place.root.is_dir() else ():
        if entry not in kept_paths:
            left += _remove_tree(entry)
    return left


def _remove_tree(path: Path) -> List[str]:
    """Remove a file, a link or a directory, which ranks may change meanwhile; return why that failed."""
    try:
        remove(locate(path))
    except FileNotFoundError:
        return []  # it, or a directory above it, does not exist
    except OSError as error:
        return ["%s: %s" % (error.filename or path, error.strerror or error)]
    return []
