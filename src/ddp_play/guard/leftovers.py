"""What earlier runs left on this host, and taking it away by exact id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from . import docker_socket, proc, secretfiles
from .protocol import split_run_key
from .run_files import HostRun, base_dir, read_json
from .running_guards import guards

RUN_LABEL = "ddp-play.run"
KEY_LABEL = "ddp-play.key"
# In a run's shared directory: the number of the attempt that prepared it last.
ATTEMPT_MARK = ".attempt"
KILL_S = 5.0


def guard_alive(state: Dict[str, Any]) -> bool:
    """Does the guard that wrote this state still run?"""
    pid, ticks = state.get("guard_pid"), state.get("guard_ticks")
    return bool(pid and ticks) and same_boot(state) and proc.alive(int(pid or 0), ticks)


def look(place: HostRun) -> Tuple[Dict[str, Any], bool]:
    """(state, does its guard live). A guard that ended between the two looks has written its last state."""
    state = read_json(place.state) or {}
    alive = guard_alive(state)
    return (state, True) if alive else (read_json(place.state) or {}, False)


def same_boot(state: Dict[str, Any]) -> bool:
    """Was the state written since this host started? If not, its pids may be anybody's."""
    return bool(state.get("boot")) and state.get("boot") == proc.boot_id()


def runs() -> List[Dict[str, Any]]:
    """One row per run directory on this host."""
    found = []
    root = base_dir() / "runs"
    for run_dir in sorted(root.iterdir()) if root.is_dir() else []:
        for place in sorted(run_dir.iterdir()) if run_dir.is_dir() else []:
            host = place.name.partition(".")[2]
            run, token = split_run_key(run_dir.name)
            state = read_json(place / "state.json") or {}
            spec = read_json(place / "spec.json") or {}
            found.append(
                {
                    "run": run,
                    "token": token,
                    "attempt": HostRun(place).attempt,
                    "host": host,
                    "path": str(place),
                    "phase": state.get("phase", "unknown"),
                    "reason": state.get("reason", ""),
                    "guard_alive": guard_alive(state),
                    "attended": HostRun(place).attended(),
                    "owner": spec.get("owner", ""),
                    "controller": spec.get("controller", ""),
                    "ranks": {
                        rank: {k: row.get(k) for k in ("state", "exit_code", "signal", "pid", "container")}
                        for rank, row in (state.get("ranks") or {}).items()
                    },
                    "since": spec.get("created", 0),
                }
            )
    return found


def orphan_containers() -> List[Dict[str, Any]]:
    """Containers with our label that no living guard owns, whoever's guard it is."""
    living = {(place.run_key, place.root.name.partition(".")[2]) for place in guards().values()}
    try:
        listed = docker_socket.containers(RUN_LABEL)
    except docker_socket.EngineError:
        return []
    rows = []
    for container in listed:
        labels = container.get("Labels") or {}
        key = labels.get(KEY_LABEL) or labels.get(RUN_LABEL, "")  # an earlier version had no key
        host = labels.get("ddp-play.host", "")
        if (key, host) not in living:
            run, token = split_run_key(key)
            rows.append(
                {
                    "id": container.get("Id", ""),
                    "run": run,
                    "token": token,
                    "host": host,
                    "attempt": labels.get("ddp-play.attempt", ""),
                    "owner": labels.get("ddp-play.owner", ""),
                    "state": container.get("State"),
                }
            )
    return rows


def stop_guard(state: Dict[str, Any], grace_s: float = 5.0) -> None:
    """End a guard by its exact id: it stops its ranks on TERM; after `grace_s` it is killed."""
    pid, ticks = int(state.get("guard_pid") or 0), state.get("guard_ticks")
    if not ticks or not same_boot(state) or not proc.signal_exactly(pid, ticks, signal.SIGTERM):
        return
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and proc.alive(pid, ticks):
        time.sleep(0.05)
    proc.signal_exactly(pid, ticks, signal.SIGKILL)


def _stop_ranks(state: Dict[str, Any]) -> List[str]:
    """Kill rank processes that outlived their guard; those that do not end are returned, in words."""
    if not same_boot(state):
        return []
    killed = []
    for rank, row in (state.get("ranks") or {}).items():
        pid, ticks = row.get("pid"), row.get("ticks")
        if row.get("container") or not pid or not ticks:
            continue  # a pid without its start time may be anybody's
        if proc.signal_exactly(int(pid), ticks, signal.SIGKILL, group=True):
            killed.append((rank, int(pid), ticks))
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline and any(proc.alive(pid, ticks) for _, pid, ticks in killed):
        time.sleep(0.02)
    return ["rank %s (pid %d) does not end" % (rank, pid) for rank, pid, ticks in killed if proc.alive(pid, ticks)]


def clean(
    place: HostRun, *, keep_src: bool = False, run_paths: Optional[List[str]] = None, by_guard: bool = False
) -> List[str]:
    """Take everything of one attempt off this host; what could not be removed is returned, in words.

    `keep_src`: its working directory stays. `run_paths`: of what all attempts share, these go; unless told, the head
    takes all of it, but never what earlier attempts may have left there. `by_guard`: the guard itself asks, before any
    rank has started.
    """
    left: List[str] = []
    state = read_json(place.state) or {}
    spec = read_json(place.spec) or {}
    if not by_guard:
        stop_guard(state)
        left += _stop_ranks(state)
    agent = spec.get("agent")
    for unit in [*spec.get("ranks", []), *([agent] if agent else [])]:
        if unit.get("container"):
            left += _remove_container(unit["container"])
    for extra in spec.get("owned_paths", ()):
        left += _remove_tree(Path(extra))
    left += filter(None, [secretfiles.remove(place.secrets)])
    of_head = spec.get("run_paths", []) if spec.get("head") and not spec.get("continues") else []
    left += _remove_run_paths(place, of_head if run_paths is None else run_paths, keep=keep_src)
    if keep_src and (place.src.is_dir() or spec.get("run_paths")):
        left += _keep_only_src(place)
    else:
        left += _remove_tree(place.root)
    with contextlib.suppress(OSError):
        place.root.parent.rmdir()  # with the last that needed it
    return left


def newest_attempt(run_path: Path) -> int:
    """Which attempt prepared a directory that all attempts of a run share; 0 when nothing says so."""
    try:
        return int((run_path / ATTEMPT_MARK).read_text())
    except (OSError, ValueError):
        return 0


def _remove_run_paths(place: HostRun, run_paths: List[str], *, keep: bool) -> List[str]:
    """The run's shared directory, unless a later attempt works in it: a host that was lost comes back to that."""
    left: List[str] = []
    for path in map(Path, () if keep else run_paths):
        if newest_attempt(path) <= place.attempt:
            left += _remove_tree(path)
    return left


def kept(place: HostRun) -> List[str]:
    """The working directories that are still here after `clean` was told to keep them."""
    spec = read_json(place.spec) or {}
    return [path for path in (str(place.src), *spec.get("run_paths", ())) if os.path.isdir(path)]


def _keep_only_src(place: HostRun) -> List[str]:
    left = []
    for entry in place.root.iterdir():
        if entry not in (place.src, place.spec):
            left += _remove_tree(entry)
    return left


def _remove_container(name: str) -> List[str]:
    try:
        docker_socket.remove(name)
    except docker_socket.EngineError as error:
        return ["container %s: %s" % (name, error)]
    return []


def _remove_tree(path: Path) -> List[str]:
    for _ in range(5):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(str(path))
            elif path.exists() or path.is_symlink():
                os.unlink(str(path))
        except FileNotFoundError:
            continue  # somebody else removes the same
        except OSError as error:
            return ["%s: %s" % (path, error.strerror or error)]
        return []
    return ["%s: others write there" % path]
