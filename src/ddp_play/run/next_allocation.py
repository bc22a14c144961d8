"""Start of a run's next allocation: what came before is ended and recorded before anything new begins.

The controller of before may have left the run in order (`requeue`), or was lost with its node. Nothing begins while one
of its processes may still write into the bundle.
"""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING, Any

from ddp_play.bundle import run_locks
from ddp_play.bundle.outcome import RunStatus, Verdict
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.run_lookup import has_ended
from ddp_play.errors import Busy, Interrupted
from ddp_play.run import interrupted_attempt, requeue
from ddp_play.run.stop_requests import StopRequests

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths
    from ddp_play.engines.interface import Ending

# A file server keeps the locks of a node that is gone for some 90 s.
LOCKED_S = 150.0
TICK_S = 0.5


def wait_for_locks(paths: RunPaths, *, timeout_s: float = LOCKED_S) -> None:
    """Wait until no process of an earlier start supervises the run. Busy if one still does."""
    until = time.monotonic() + timeout_s
    while run_locks.is_locked(paths.background_lock) or run_locks.is_locked(paths.lock):
        if time.monotonic() > until:
            raise _still_there(paths)
        time.sleep(TICK_S)


def lock_engine(lock: IO[str], paths: RunPaths, *, timeout_s: float = LOCKED_S) -> None:
    """Lock the file of the run's controller. Busy if that of another start has it."""
    try:
        run_locks.lock(lock, within_s=timeout_s)
    except OSError:
        raise _still_there(paths) from None


def _still_there(paths: RunPaths) -> Busy:
    return Busy(
        f"run {paths.run_id} is still supervised by a process of an earlier start of its job",
        hint=f"ddp-play stop {paths.run_id} --now ends it",
    )


def is_fresh(document: dict[str, Any]) -> bool:
    """Has no attempt of the run begun? Then this start is as its first one, however often its job was requeued."""
    return not (document.get("attempt") or document.get("attempts") or document.get(requeue.FIELD))


def begin(paths: RunPaths, cause: Ending, words: str) -> bool:
    """Make the bundle ready for this start. `cause` and `words`: why the start before it ended, as far as is known.

    False if the run has ended. HostNotReady if ranks of before may still run; Interrupted after a stop request.
    """
    wait_for_locks(paths)
    document = read_json(paths.run)
    if has_ended(document):
        return False
    if not is_fresh(document) and not requeue.is_left(paths):
        if not interrupted_attempt.conclude(paths, Verdict(cause.kind, words, cause.exit_code)):
            return False
        document = read_json(paths.run)
    StopRequests(paths).forget_requeue()
    if StopRequests(paths).stop() is not None:
        raise Interrupted(requeue.STOPPED)
    document.pop(requeue.FIELD, None)
    write_json(paths.run, {**document, "status": str(RunStatus.STARTING)})
    _make_way_for_plan(paths, int(document.get("attempt") or 0))
    return True


def _make_way_for_plan(paths: RunPaths, attempt: int) -> None:
    """Move what each start writes anew to attempts/N; a plan in the run's directory would be that of another job."""
    put = paths.attempt(attempt).root
    for path in (paths.plan, paths.ansible):
        if path.exists():
            put.mkdir(parents=True, exist_ok=True, mode=0o700)
            _move(path, put)


def _move(path: Path, directory: Path) -> None:
    target = directory / path.name
    if not path.is_dir() and target.exists():  # the ended attempt's; this one is of a start that had no attempt
        path.unlink()
        return
    if target.exists():  # a start before this one got as far as here
        target = directory / f"{path.name}.{time.time():.0f}"
    path.replace(target)
