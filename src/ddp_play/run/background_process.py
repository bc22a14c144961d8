"""Background process of a run, independent of the terminal: `python -m ddp_play.run.background_process RUN_DIR`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from ddp_play.ansible.error_output import NO_HOSTS, start_remedy, unparsed_inventory
from ddp_play.ansible.facts_cache import facts_cache
from ddp_play.ansible.left_workers import end_workers
from ddp_play.ansible.plugin_variables import FACTS_ENV, RUN_DIR_ENV
from ddp_play.ansible.runner import (
    AnsibleRunner,
    Passwords,
    PlaybookOutcome,
    PlaybookRequest,
    PlaybookRunner,
    PlaybookStatus,
    artifact,
)
from ddp_play.bundle import run_locks
from ddp_play.bundle.bundle_size import RECORDED, to_record
from ddp_play.bundle.disk_space import DiskSpace
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import RunStatus, error_fields
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.bundle.run_lookup import has_ended
from ddp_play.errors import (
    CheckFailed,
    DdpPlayError,
    DiskFull,
    InternalError,
    Interrupted,
    NotTakenOver,
    UnknownVersion,
    UsageError,
)
from ddp_play.run import requeue
from ddp_play.run.playbook_stop import OWN_ACTION, TASK_EVENTS, PlaybookStop
from ddp_play.run.report_start import start_report
from ddp_play.run.stop_requests import NOT_STARTED


def run_playbook(paths: RunPaths, passwords: Passwords, runner: PlaybookRunner) -> None:
    """Run the playbook and write to run.json how it ended, unless ranks may still be alive."""
    request = PlaybookRequest.from_json(read_json(paths.run)["request"])
    request.environment[RUN_DIR_ENV] = str(paths.root)
    request.environment[FACTS_ENV] = str(facts_cache(request))
    journal, stop = Journal(paths.events), PlaybookStop(paths)

    def on_event(event: dict[str, Any]) -> None:
        stop.on_event(event)
        _journal_event(journal, event)

    try:
        outcome = runner.run(
            request, private_dir=paths.ansible, passwords=passwords, on_event=on_event, cancel=stop.is_due
        )
        if stop.requested and outcome.status is PlaybookStatus.CANCELED:
            end_workers(paths.ansible)  # none of them supervises ranks: after a signal one may, and goes on
            _record_stop(paths)
        else:
            _join_outcomes(paths, outcome)
    except DdpPlayError as error:
        _record_end(paths, error)


def _journal_event(journal: Journal, event: dict[str, Any]) -> None:
    """Write an event for each of the user's tasks; the role ddp_job writes events of its own."""
    kind, data = str(event.get("event")), event.get("event_data") or {}
    task = str(data.get("task") or "")
    if kind == "playbook_on_play_start":
        journal.emit("play", name=data.get("name") or "")
    elif kind in TASK_EVENTS and data.get("task_action") != OWN_ACTION:
        result = data.get("res") or {}
        status = "changed" if kind == "runner_on_ok" and result.get("changed") else TASK_EVENTS[kind]
        message = str(result.get("msg") or "")[:2000]
        journal.emit("task", name=task, host=data.get("host"), status=status, message=message)


def _join_outcomes(paths: RunPaths, outcome: PlaybookOutcome) -> None:
    """Combine the outcome of the job with that of the rest of the playbook."""
    document = read_json(paths.run)
    log = str(artifact(paths.ansible, "stdout"))
    error = outcome.error(log)
    if requeue.is_left(paths):
        return  # its next attempt comes with the engine's next hosts
    if not has_ended(document):
        if error is None:
            error = _no_job(Path(log))
        _record_end(paths, error)
    elif error is not None and document.get("status") == RunStatus.SUCCEEDED:
        message = f"the job succeeded, but the playbook failed after it: {error.message}"
        _record_error(paths, CheckFailed(message, hint=error.hint))


def _record_stop(paths: RunPaths) -> None:
    """Record that the playbook was stopped outside of its job: before its start, or after its end."""
    document = read_json(paths.run)
    if not has_ended(document):
        _record_end(paths, Interrupted(NOT_STARTED))
    elif document.get("status") == RunStatus.SUCCEEDED:
        _record_error(paths, Interrupted("the job succeeded; the playbook's tasks after it were stopped"))


def _no_job(log: Path) -> UsageError:
    """Error of a playbook that ended well without a job: the inventory is broken, or it has no such hosts."""
    output = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if broken := unparsed_inventory(output):
        return UsageError(broken, hint=start_remedy(broken))
    return UsageError(
        "the playbook ran no job: no play with the role ddp.play.ddp_job matched a host",
        hint=NO_HOSTS,
    )


def _ranks_may_live(document: dict[str, Any]) -> bool:
    """Were hosts prepared, and has no supervisor recorded the end of the run? It died, whatever the reason."""
    return bool(document.get("directories")) and not has_ended(document)


def _record_end(paths: RunPaths, error: DdpPlayError) -> None:
    """Record the error as the end of the run. If ranks may be alive, the run stays unattended.

    `attach` and `stop` then take over, and gc removes nothing.
    """
    if _ranks_may_live(read_json(paths.run)):
        message = f"the supervisor died: {error.message}; see {paths.supervisor_log}"
        Journal(paths.events).emit("warning", message=message)
    else:
        _record_error(paths, error)


def _record_error(paths: RunPaths, error: DdpPlayError) -> None:
    known = read_json(paths.run)
    document = {**known, **error_fields(error, known), "ended": time.time()}
    DiskSpace(paths.root).release()
    write_json(paths.run, document)
    Journal(paths.events).emit("ended", status=document["status"], message=error.message)


def take_over(paths: RunPaths, passwords: Passwords) -> bool:
    """Supervise a run whose supervisor died. Its run directory has all that is needed. False if no host was reached."""
    from ddp_play.run.attempt_assignment import assignment_from_bundle  # noqa: PLC0415 - most runs need no take-over
    from ddp_play.run.restart_loop import RestartLoop  # noqa: PLC0415
    from ddp_play.run.run_hooks import END, end_by, hooks_of  # noqa: PLC0415

    hooks = hooks_of(paths)
    try:
        RestartLoop(assignment_from_bundle(paths, passwords)).take_over()
    except (NotTakenOver, UnknownVersion) as error:  # the ranks may live: the run has not ended
        started = read_json(paths.background)
        write_json(paths.background, {**started, "not_taken_over": {"message": error.message, "hint": error.hint}})
        return False
    except DdpPlayError as error:
        _record_error(paths, error)
    except Exception as error:
        hooks.tell(END, paths, **end_by(error, paths))
        raise
    if not requeue.is_left(paths):
        hooks.tell(END, paths)
    return True


def _is_over(paths: RunPaths) -> bool:
    """Has another one, which had the lock until now, taken the run over and ended it? One with a full disk goes on."""
    document = read_json(paths.run)
    return has_ended(document) and document.get("exit_class") != DiskFull.kind


def _name_lost_controller(paths: RunPaths) -> None:
    from ddp_play.run.engine_runs import name_lost_controller  # noqa: PLC0415 - most runs have no allocation

    name_lost_controller(paths)


def main() -> None:
    """Hold the background lock, run or take over, then mark the run finished."""
    in_background(RunPaths(Path(sys.argv[1])), AnsibleRunner(), take_over_run="--take-over" in sys.argv)


def in_background(paths: RunPaths, runner: PlaybookRunner, *, take_over_run: bool, session: int = 0) -> None:
    """Run or take over with the passwords on standard input. `session`: pid of the one that this process is from."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with paths.background_lock.open("a") as handle:
        run_locks.lock(handle)
        passwords = Passwords(**json.loads(sys.stdin.buffer.read() or b"{}"))
        started = {"pid": os.getpid(), "started": time.time()}
        write_json(paths.background, {**started, "session": session} if session else started)
        ended = True
        try:
            if not take_over_run:
                run_playbook(paths, passwords, runner)
            elif not _is_over(paths):
                ended = take_over(paths, passwords)
        except Exception as error:  # noqa: BLE001 - outermost handler of this process: run.json must say how the run ended
            traceback.print_exc()
            hint = f"see {paths.supervisor_log}"
            _record_end(paths, InternalError(f"ddp-play itself failed: {error!r}", hint=hint))
        finally:
            if paths.allocation.exists():
                _name_lost_controller(paths)
            if ended and not (_ranks_may_live(read_json(paths.run)) or requeue.is_left(paths)):
                sizes = {RECORDED: to_record(paths.root)}
                write_json(paths.run, {**read_json(paths.run), **sizes, "finished": True})
    if not requeue.is_left(paths):
        start_report(paths)


if __name__ == "__main__":
    main()
