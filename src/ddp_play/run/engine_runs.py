"""Runs whose hosts come from an engine: their submission, their allocation's state, and their end without a bundle.

No process waits for an allocation: whoever reads such a run asks the engine, at most once in a few seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle import run_locks, run_lookup
from ddp_play.bundle.disk_space import DiskSpace
from ddp_play.bundle.file_tail import LineTail
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import HOST_LOST, Outcome, RunStatus, Verdict, error_outcome, outcome_fields
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.engines.interface import OUTPUT, Allocation, AllocationState, Ending, Phase, Wanted
from ddp_play.engines.registry import engine_named
from ddp_play.errors import DdpPlayError, HostNotReady, Interrupted, UsageError
from ddp_play.run import requeue
from ddp_play.run.restart_decision import BY_SIGNAL
from ddp_play.run.stop_requests import NOT_STARTED, StopRequests

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.run_lookup import Run
    from ddp_play.engines.interface import Engine
    from ddp_play.planning.job import Job

# The answer of an engine is used for this long, by all that read the run.
REFRESH_S = 2.0
# An engine that does not answer is given this time more: Slurm's commands wait some 20 s for a controller that is down.
SILENT_S = 10.0
TAIL_LINES = 5
# An allocation without its controller ends within this time: Slurm kills what is left after KillWait.
ENDS_S = 60.0
NO_WORD = Ending("internal", 70, "ended, and its engine does not say how")


def submit(paths: RunPaths, job: Job, engine: Engine) -> Allocation:
    """Ask the engine for the run's hosts. If it refuses, the run has ended, and its error is raised.

    Ctrl-C ends the run too, gives back what the engine has promised, and is raised as Interrupted.
    """
    write_json(paths.job, job.model_dump(mode="json"))
    write_json(paths.run, {**read_json(paths.run), "status": str(RunStatus.WAITING)})
    paths.engine.mkdir(mode=0o700, exist_ok=True)
    allocation: Allocation | None = None
    try:
        allocation = engine.allocate(Wanted(paths.run_id, paths.root, job))
        if allocation.has_controller:
            _store(paths, allocation, AllocationState(Phase.PENDING), asked=0.0)
    except DdpPlayError as error:
        record_end(paths, error_outcome(error))
        raise
    except KeyboardInterrupt:
        record_end(paths, error_outcome(Interrupted(NOT_STARTED)))
        if allocation is not None:
            _cancel(paths, allocation, engine, Interrupted(NOT_STARTED))
        raise Interrupted(NOT_STARTED) from None
    return allocation


def load(paths: RunPaths) -> Run:
    """The run as `run_lookup.load` reads it, after its engine was asked how the allocation is."""
    refresh(paths)
    return run_lookup.load(paths)


def find(run_id: str) -> Run:
    """The run as `run_lookup.find` finds it, after its engine was asked how the allocation is."""
    run = run_lookup.find(run_id)
    return load(run.paths) if run.allocation else run


def refresh(paths: RunPaths) -> None:
    """Ask the engine how the run's allocation is, and write what follows from it into the bundle."""
    row = read_json(paths.allocation)
    if not row or row["phase"] == Phase.ENDED or time.time() - row["asked"] < REFRESH_S:
        return
    allocation, engine = Allocation.from_json(row), engine_named(str(row["engine"]))
    state = engine.state(allocation)
    if state.phase is Phase.ENDED and run_locks.is_locked(paths.background_lock):
        return  # its controller still writes how it ended
    if state.phase is Phase.UNKNOWN:  # as far as it was, until the engine says something else
        _store(paths, allocation, AllocationState(Phase(row["phase"]), state.text), asked=time.time() + SILENT_S)
        return
    if state.phase is Phase.GRANTED and state.ending is not None:
        _cancel_headless(paths, allocation, state, engine)
        return
    _store(paths, allocation, state, asked=time.time())
    if state.phase is Phase.PENDING and state.text != row.get("text"):
        Journal(paths.events).emit("queue", text=state.text, job=allocation.id)
    if state.phase is Phase.ENDED:
        _conclude(paths, allocation, state, was_pending=row["phase"] == Phase.PENDING)
    else:
        _give_up_in_vain(paths, allocation, state, engine)


def _give_up_in_vain(paths: RunPaths, allocation: Allocation, state: AllocationState, engine: Engine) -> None:
    """Cancel an allocation that can never start, or that nobody wants any more."""
    if state.never:
        _give_up(paths, allocation, state, engine)
    elif state.phase is Phase.PENDING and _is_unwanted(paths):
        _cancel(paths, allocation, engine, _interrupted(paths))


def _interrupted(paths: RunPaths) -> Interrupted:
    return Interrupted(requeue.STOPPED if requeue.is_left(paths) else NOT_STARTED)


def _is_unwanted(paths: RunPaths) -> bool:
    """Has a person stopped the run, or has it ended, while its allocation waits? The engine's own requests are none."""
    order = StopRequests(paths).stop()
    return (order is not None and not order.requeue) or run_lookup.has_ended(read_json(paths.run))


def cancel_pending(run: Run) -> bool:
    """Give up the allocation of a run that waits for it. False if the run does not wait, or has just been granted."""
    row = run.allocation
    if not row or row["phase"] != Phase.PENDING:
        return False
    allocation, engine = Allocation.from_json(row), engine_named(str(row["engine"]))
    if engine.state(allocation).phase is not Phase.PENDING:
        return False  # its controller sees the stop request
    return _cancel(run.paths, allocation, engine, _interrupted(run.paths))


def _store(paths: RunPaths, allocation: Allocation, state: AllocationState, *, asked: float) -> None:
    write_json(
        paths.allocation, {**allocation.to_json(), "phase": str(state.phase), "text": state.text, "asked": asked}
    )


def _give_up(paths: RunPaths, allocation: Allocation, state: AllocationState, engine: Engine) -> None:
    """Cancel an allocation that would wait for ever."""
    error = UsageError(f"{allocation.engine} job {allocation.id} can never start: {state.never}", hint=state.text)
    _cancel(paths, allocation, engine, error)


def _cancel(paths: RunPaths, allocation: Allocation, engine: Engine, error: DdpPlayError) -> bool:
    """Cancel the allocation of a run that has not started, or was requeued after its end.

    False if the engine does not answer: whoever looks next tries again.
    """
    try:
        engine.cancel(allocation)
    except HostNotReady:
        return False
    _store(paths, allocation, AllocationState(Phase.ENDED), asked=time.time())
    if not run_lookup.has_ended(read_json(paths.run)):
        record_end(paths, error_outcome(error))
    return True


def _cancel_headless(paths: RunPaths, allocation: Allocation, state: AllocationState, engine: Engine) -> None:
    """End an allocation that has lost its controller: nobody in it would. Whoever looks next tries again."""
    try:
        engine.cancel(allocation)
    except HostNotReady:
        return
    _store(paths, allocation, AllocationState(Phase.ENDED), asked=time.time())
    _conclude(paths, allocation, state, was_pending=False)


def _conclude(paths: RunPaths, allocation: Allocation, state: AllocationState, *, was_pending: bool) -> None:
    """Record the end of a run whose controller could not, because its allocation ended first."""
    if run_lookup.has_ended(read_json(paths.run)):
        return
    uncollected = _files_on_hosts(paths)
    found, output = state.ending or NO_WORD, paths.engine / OUTPUT
    when = " while it was pending" if was_pending and found.stopped else ""
    tail = LineTail(output)
    tail.skip_to_last(TAIL_LINES)
    verdict = Verdict(
        found.kind,
        f"{allocation.engine} job {allocation.id} {found.words}{when}",
        found.exit_code,
        tail=tuple(tail.finish()),
        hint=found.hint or ("" if found.stopped else f"output of the job: {output}"),
    )
    record_end(paths, Outcome(RunStatus.STOPPED if found.stopped else RunStatus.FAILED, verdict), **uncollected)


def _files_on_hosts(paths: RunPaths) -> dict[str, Any]:
    """Fields of run.json about the files of an attempt that nobody could collect."""
    document = read_json(paths.run)
    hosts, attempt = sorted(document.get("directories") or {}), int(document.get("attempt") or 1)
    rows = [{"attempt": attempt, "host": host} for host in hosts]
    return {"uncollected": [*(document.get("uncollected") or ()), *rows]} if rows else {}


def name_lost_controller(paths: RunPaths) -> None:
    """Let run.json say that the controller inside the allocation was lost, if this is why the ranks ended.

    The engine ends the steps of such an allocation, and guards that it signals only know that they were asked to end.
    """
    row, document = read_json(paths.allocation), read_json(paths.run)
    if not row.get("has_controller") or run_locks.is_locked(paths.engine_lock):
        return
    verdict = document.get("verdict") or {}
    by_engine = document.get("status") == RunStatus.STOPPED or verdict.get("exit_code") in BY_SIGNAL
    if StopRequests(paths).stop() is not None or not (by_engine or verdict.get("kind") in (HOST_LOST, "lease")):
        return
    allocation, engine = Allocation.from_json(row), engine_named(str(row["engine"]))
    until = time.monotonic() + ENDS_S
    while (state := engine.state(allocation)).phase is not Phase.ENDED and time.monotonic() < until:
        time.sleep(REFRESH_S / 4)
    found = state.ending or Ending("internal", 70, "lost its controller")
    words = f"{allocation.engine} job {allocation.id} {found.words}"
    renamed = {**verdict, "kind": found.kind, "exit_code": found.exit_code, "message": words, "hint": ""}
    fields = {"status": str(RunStatus.FAILED), "exit_code": found.exit_code, "exit_class": found.kind}
    write_json(paths.run, {**document, **fields, "verdict": renamed})


def record_end(paths: RunPaths, outcome: Outcome, **more: Any) -> None:
    """Write the end of a run that no attempt follows; `more`: further fields of run.json."""
    requeue.note_left_on_shared(paths)
    known: dict[str, Any] = read_json(paths.run)
    ended = {"ended": time.time(), "finished": True, **more}
    DiskSpace(paths.root).release()
    write_json(paths.run, {**known, **outcome_fields(outcome, known), **ended})
    Journal(paths.events).emit("ended", status=str(outcome.status), message=outcome.verdict.message)
