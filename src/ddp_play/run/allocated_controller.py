"""Controller of a run inside its Slurm job: `python -m ddp_play.run.allocated_controller RUN_DIR`, the job's script.

It writes an inventory of the job's nodes, starts the run's background process as `ddp-play run` does over SSH, and
exits with the run's exit code.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ddp_play.ansible.plan_action import SPARES
from ddp_play.ansible.runner import Passwords
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import HOST_LOST, RunStatus, error_outcome
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.bundle.run_locks import is_locked
from ddp_play.bundle.run_lookup import has_ended
from ddp_play.engines import slurm_commands, slurm_states
from ddp_play.engines.interface import HOSTS, OUTPUT, Ending
from ddp_play.errors import Busy, DdpPlayError, HostNotReady, InternalError
from ddp_play.planning.short_lists import short_list
from ddp_play.run import next_allocation, requeue
from ddp_play.run.allocated_nodes import CONFIG_S, binds_tasks, inventory, job_hosts, use_engine
from ddp_play.run.engine_runs import record_end
from ddp_play.run.report_start import report_within
from ddp_play.run.restart_choice import restart_policy
from ddp_play.run.restart_decision import BY_SIGNAL
from ddp_play.run.run_hooks import END, hooks_of
from ddp_play.run.stop_requests import StopRequests
from ddp_play.run.submission import start_background

# Slurm's daemon writes why it ends a job at about the time of its signal, on a busy node later. Before a time limit it
# writes nothing.
CAUSE_S = 2.0
TICK_S, ASK_S = 0.2, 1.0  # Slurm's controller is asked less often
# A page of the run takes a second or two; Slurm may be about to kill what is left of the job.
REPORT_S = 15.0
# Slurm has requeued the job before it signals the script.
REQUEUED_S = 60.0
# Each of them is a process that somebody, or the kernel for want of memory, has killed.
MAX_TAKE_OVERS = 3
# Slurm signals up to 60 s before the time that was asked for, which is 15 s before the grace period.
EARLY_S = 90.0


class Signals:
    """Counts SIGTERM: Slurm sends it before its time limit, and at the end of a cancelled job."""

    def __init__(self) -> None:
        self.count = 0
        signal.signal(signal.SIGTERM, self._count)

    def _count(self, _signum: int, _frame: Any) -> None:
        self.count += 1


def control(paths: RunPaths, ask: slurm_commands.Ask) -> int:
    """Run the run of this directory on the nodes of the job around this process; returns its exit code.

    A run that ended before its job started is left as it is. A job that was requeued goes on with its next attempt.
    """
    signals = Signals()
    if has_ended(read_json(paths.run)):
        return _exit_code(paths)
    job_id = use_engine()
    with report_within(paths, REPORT_S):
        goes_on = _begin(paths, job_id)
    if not goes_on:
        return _exit_code(paths)
    _check_files(paths)
    _requeue_no_more(paths, job_id, ask)
    hosts = job_hosts(ask)
    _use_hosts(paths, hosts, job_id, binding=binds_tasks(ask))
    Journal(paths.events).emit("queue", text=f"granted {len(hosts)} nodes: {', '.join(hosts)}", job=job_id)
    before = read_json(paths.run).get("attempt")
    with report_within(paths, REPORT_S):
        cause = _run(paths, signals, job_id, ask)
        if cause is not None:
            _name_the_cause(paths, cause, job_id)
        ended = read_json(paths.run)
        if has_ended(ended) and ended.get("attempt") == before:  # a supervisor gives its attempt a number
            requeue.note_left_on_shared(paths)
    if requeue.is_left(paths):
        return _wait_for_requeue(paths, signals, job_id, ask)
    return _exit_code(paths)


def _run(paths: RunPaths, signals: Signals, job_id: str, ask: slurm_commands.Ask) -> Ending | None:
    """Run to the end, or until the run is left. Returns why Slurm ended it; None if Slurm did not.

    If the background process is killed, another one takes over, as `attach` does over SSH.
    """
    _start(paths)
    for left in reversed(range(MAX_TAKE_OVERS + 1)):
        cause = _wait(paths, signals, job_id, ask)
        document = read_json(paths.run)
        if has_ended(document) or requeue.is_left(paths):
            return cause
        if not left or not document.get("directories") or cause is not None:
            break
        Journal(paths.events).emit("warning", message="the supervisor died; another one takes over")
        _start(paths, take_over=True)
    raise InternalError("the background process ended before the run did", hint=f"see {paths.supervisor_log}")


def _begin(paths: RunPaths, job_id: str) -> bool:
    """Make the bundle ready for this start of the job, and note where it is. False if the run has ended."""
    before, output = read_json(paths.engine_start), _output(paths, 0)
    cause = slurm_states.cause_said(output[int(before.get("output_chars") or 0) :]) or Ending(
        HOST_LOST, HostNotReady.exit_code, f"lost its controller on {before.get('node') or 'its first node'}"
    )
    goes_on = next_allocation.begin(paths, cause, f"Slurm job {job_id} {cause.words}")
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    write_json(paths.engine_start, {"node": node, "output_chars": len(output)})
    return goes_on


def _requeue_no_more(paths: RunPaths, job_id: str, ask: slurm_commands.Ask) -> None:
    """Have Slurm end the job of a run without another restart, instead of a start that would do nothing."""
    if requeue.is_possible(paths) and _is_last(paths):
        ask("scontrol", "update", f"JobId={job_id}", "Requeue=0")


def _is_last(paths: RunPaths) -> bool:
    """Has the run used up its restarts?"""
    return len(read_json(paths.run).get("attempts") or ()) >= restart_policy(paths).restarts


def _check_files(paths: RunPaths) -> None:
    """HostNotReady if this node lacks what the run reads: it was submitted on another host."""
    request = read_json(paths.run)["request"]
    wanted = [request["cwd"], request["playbook"], *request["inventory"], read_json(paths.job).get("source")]
    cwd = Path(request["cwd"])
    if missing := [name for name in wanted if name and "," not in name and not (cwd / name).exists()]:
        raise HostNotReady(
            f"{socket.gethostname()}, on which the run's controller is, lacks {short_list(missing, 5)}",
            hint="put the playbook, its source and its inventory on the shared directory, and run it from there",
        )


def _use_hosts(paths: RunPaths, hosts: list[str], job_id: str, *, binding: bool) -> None:
    """Write the inventory of the nodes, and have the run use it after the inventories that the user named."""
    path = paths.engine / HOSTS
    known = read_json(path)  # of an earlier start: since then job.json has the playbook's settings only
    num_spares = len(known[SPARES]["hosts"]) if SPARES in known else 0
    if not known:
        num_spares = int((read_json(paths.job).get("slurm") or {}).get("spares") or 0)
    write_json(path, inventory(hosts, job_id, binding=binding, num_spares=num_spares))  # JSON is YAML
    document = read_json(paths.run)
    request = document["request"]
    request["inventory"] = [*(item for item in request["inventory"] if item != str(path)), str(path)]
    given = request["options"][:-2] if known else request["options"]
    request["options"] = [*given, "--limit", ",".join(hosts)]
    write_json(paths.run, {**document, "status": str(RunStatus.STARTING)})


def _start(paths: RunPaths, *, take_over: bool = False) -> None:
    """Start the run's background process as an orphan: Slurm's signals to the job's script must not reach it."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            start_background(paths, Passwords(), take_over=take_over)
        except DdpPlayError as error:
            sys.stderr.write(f"{error}\n")
            code = error.exit_code
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise InternalError("the background process of the run did not start", hint=f"see {paths.supervisor_log}")


def _wait(paths: RunPaths, signals: Signals, job_id: str, ask: slurm_commands.Ask) -> Ending | None:
    """Wait for the end of the run. Returns why Slurm ended it; None if Slurm did not."""
    cause, heard = None, 0
    # a supervisor whose background process was killed goes on by itself
    while is_locked(paths.background_lock) or is_locked(paths.lock):
        if signals.count > heard:
            cause = cause or _cause(paths, job_id, ask)
            request = {"reason": f"Slurm job {job_id} {cause.words}"}
            if requeue.is_possible(paths) and _comes_back(paths, cause, job_id, ask):
                request["requeue"] = "yes"
            if StopRequests(paths).stop() is None:  # a person's own request stays
                write_json(paths.stop_request(now=False), request)
            heard = signals.count
        time.sleep(TICK_S)
    return cause


def _cause(paths: RunPaths, job_id: str, ask: slurm_commands.Ask) -> Ending:
    """Why Slurm sent its signal. Its daemon writes that to the job's output, at about the same time."""
    until, begin = time.monotonic() + CAUSE_S, int(read_json(paths.engine_start).get("output_chars") or 0)
    while not slurm_states.is_end_said(text := _output(paths, begin)) and time.monotonic() < until:
        time.sleep(TICK_S)
    fields = slurm_commands.shown(ask, "job", job_id)
    within_s = EARLY_S + float(read_json(paths.job).get("grace") or 0)
    return slurm_states.cause_of_signal(text, fields, now=time.time(), within_s=within_s)


def _comes_back(paths: RunPaths, cause: Ending, job_id: str, ask: slurm_commands.Ask) -> bool:
    """Does Slurm bring the job back, or would it, had the run not used up its restarts? Then the run says so."""
    may = slurm_states.comes_back(cause, {}, {})
    if not may or _is_last(paths):
        return may  # whatever Slurm says, which may take its time
    fields = slurm_commands.shown(ask, "job", job_id)
    return slurm_states.comes_back(cause, fields, slurm_commands.shown(ask, "partition", fields.get("Partition", "")))


def _output(paths: RunPaths, begin: int) -> str:
    """The job's output from this character on."""
    output = paths.engine / OUTPUT
    return output.read_text(errors="replace")[begin:] if output.exists() else ""


def _wait_for_requeue(paths: RunPaths, signals: Signals, job_id: str, ask: slurm_commands.Ask) -> int:
    """Wait for Slurm to end the script of a job that it requeues, after asking for that if nobody has."""
    heard = signals.count  # a warning before the preemption, or the preemption itself
    _have_requeued(paths, job_id, ask)
    until = time.monotonic() + REQUEUED_S
    while signals.count == heard and _is_running(job_id, ask) and time.monotonic() < until:
        time.sleep(ASK_S)
    return Busy.exit_code  # Slurm ignores it: the job is pending again


def _have_requeued(paths: RunPaths, job_id: str, ask: slurm_commands.Ask) -> None:
    """Have Slurm requeue the job, unless it has done so. Its controller may be restarting. HostNotReady if it refuses.

    An answer may be lost that said yes, so the job's state is looked at before each question and after a no.
    """
    until = time.monotonic() + CONFIG_S
    while _is_running(job_id, ask):
        answer = ask("scontrol", "requeue", job_id)
        if answer.code == 0:
            return
        if answer.silent_controller and time.monotonic() < until:
            time.sleep(ASK_S)
        elif _is_running(job_id, ask):
            message = f"{requeue.reason(paths)}; Slurm does not requeue job {job_id}: {answer.words}"
            raise HostNotReady(message, hint="the last attempt's files are in attempts/ of the bundle")


def _is_running(job_id: str, ask: slurm_commands.Ask) -> bool:
    """Does Slurm take the job's end for its end, as far as is known? Not if it has requeued the job already."""
    return slurm_commands.shown(ask, "job", job_id).get("JobState", "RUNNING") == "RUNNING"


def _name_the_cause(paths: RunPaths, cause: Ending, job_id: str) -> None:
    """Let run.json say why Slurm ended the run: it was stopped, whatever the ranks made of the signal."""
    document = read_json(paths.run)
    verdict = document.get("verdict") or {}
    if document.get("status") != RunStatus.STOPPED and verdict.get("exit_code") not in BY_SIGNAL:
        return
    words = f"Slurm job {job_id} {cause.words}"
    verdict = {**verdict, "kind": cause.kind, "exit_code": cause.exit_code, "message": words}
    status = RunStatus.STOPPED if cause.stopped else RunStatus.FAILED
    found = {"status": str(status), "exit_code": cause.exit_code, "exit_class": cause.kind}
    write_json(paths.run, {**document, **found, "verdict": verdict})


def _exit_code(paths: RunPaths) -> int:
    return int(read_json(paths.run).get("exit_code") or 0)


def end_with(paths: RunPaths, error: DdpPlayError) -> None:
    """Record the error as the end of the run, and tell it, unless another process has it. The page comes with it."""
    if isinstance(error, Busy) or has_ended(read_json(paths.run)):
        return
    record_end(paths, error_outcome(error))
    with report_within(paths, REPORT_S):
        hooks_of(paths).tell(END, paths)


def main() -> None:
    """Exit with the run's exit code."""
    paths = RunPaths(Path(sys.argv[1]))
    with paths.engine_lock.open("a") as lock:
        try:
            next_allocation.lock_engine(lock, paths)
            code = control(paths, slurm_commands.ask)
        except DdpPlayError as error:
            sys.stderr.write(f"{error}\n")
            end_with(paths, error)
            code = error.exit_code
    sys.exit(code)


if __name__ == "__main__":
    main()
