"""Controller of a run inside its Slurm job: `python -m ddp_play.run.allocated_controller RUN_DIR`, the job's script.

It writes an inventory of the job's nodes, starts the run's background process as `ddp-play run` does over SSH, and
exits with the run's exit code.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ddp_play.ansible.plan_action import SPARES
from ddp_play.ansible.plugin_variables import ENGINE_ENV
from ddp_play.ansible.runner import Passwords
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.bundle.run_lookup import has_ended, is_locked
from ddp_play.engines import slurm_commands, slurm_states
from ddp_play.engines.interface import HOSTS, OUTPUT, Ending
from ddp_play.errors import DdpPlayError, HostNotReady, InternalError, UsageError
from ddp_play.planning.short_lists import short_list
from ddp_play.run.job_reading import GROUP
from ddp_play.run.report_start import report_within
from ddp_play.run.submission import start_background

CONNECTION = "ddp.play.slurm_step"
# Slurm's daemon writes why it ends a job at about the time of its signal.
CAUSE_S = 0.3
TICK_S = 0.2
# Slurm's controller is back within this time after a restart.
CONFIG_S = 120.0
# A page of the run takes a second or two; Slurm may be about to kill what is left of the job.
REPORT_S = 15.0
# Exit codes of ranks that Slurm's SIGTERM and SIGKILL ended.
BY_SIGNAL = (143, 137)
# Slurm signals up to 60 s before the time that was asked for, which is 15 s before the grace period.
EARLY_S = 90.0
# For these a step would refuse its own options.
REFUSED_BY_STEPS = ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_CPU_BIND", "SLURM_NTASKS")


class Signals:
    """Counts SIGTERM: Slurm sends it before its time limit, and at the end of a cancelled job."""

    def __init__(self) -> None:
        self.count = 0
        signal.signal(signal.SIGTERM, self._count)

    def _count(self, _signum: int, _frame: Any) -> None:
        self.count += 1


def control(paths: RunPaths, ask: slurm_commands.Ask) -> int:
    """Run the run of this directory on the nodes of the job around this process; returns its exit code.

    A run that ended before its job started is left as it is. UsageError for a second start, such as a requeue.
    """
    signals = Signals()
    if has_ended(read_json(paths.run)):
        return _exit_code(paths)
    if (status := read_json(paths.run).get("status")) != RunStatus.WAITING:
        raise UsageError(f"the run is {status} already, and a job that was requeued does not start it again")
    job_id = os.environ["SLURM_JOB_ID"]
    _check_files(paths)
    for name in REFUSED_BY_STEPS:
        os.environ.pop(name, None)
    os.environ[ENGINE_ENV] = "slurm"
    hosts = job_hosts(ask)
    _use_hosts(paths, hosts, job_id, binding=_binds_tasks(ask))
    Journal(paths.events).emit("queue", text=f"granted {len(hosts)} nodes: {', '.join(hosts)}", job=job_id)
    with report_within(paths, REPORT_S):
        _start(paths)
        cause = _wait(paths, signals, job_id, ask)
        if cause is not None:
            _name_the_cause(paths, cause, job_id)
    return _exit_code(paths) if has_ended(read_json(paths.run)) else InternalError.exit_code


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


def job_hosts(ask: slurm_commands.Ask) -> list[str]:
    """Names of the job's nodes. HostNotReady if Slurm does not say them."""
    answer = ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"])
    if answer.code or not answer.out.split():
        raise HostNotReady(f"Slurm does not name the nodes of this job: {answer.words}")
    return answer.out.split()


def inventory(hosts: list[str], job_id: str, *, binding: bool, num_spares: int = 0) -> dict[str, Any]:
    """Inventory of the nodes: all in the group `ranks`, the last ones in `spares` too, reached by steps of the job."""
    variables = {"ansible_connection": CONNECTION, "ansible_slurm_job": job_id, "ansible_slurm_binding": binding}
    groups: dict[str, Any] = {GROUP: {"hosts": dict.fromkeys(hosts, variables)}}
    if num_spares:
        groups[SPARES] = {"hosts": {host: {} for host in hosts[-num_spares:]}}
    return groups


def _use_hosts(paths: RunPaths, hosts: list[str], job_id: str, *, binding: bool) -> None:
    """Write the inventory of the nodes, and have the run use it after the inventories that the user named."""
    path = paths.engine / HOSTS
    num_spares = int((read_json(paths.job).get("slurm") or {}).get("spares") or 0)
    write_json(path, inventory(hosts, job_id, binding=binding, num_spares=num_spares))  # JSON is YAML
    document = read_json(paths.run)
    request = document["request"]
    request["inventory"] = [*request["inventory"], str(path)]
    request["options"] = [*request["options"], "--limit", ",".join(hosts)]
    write_json(paths.run, {**document, "status": str(RunStatus.STARTING)})


def _binds_tasks(ask: slurm_commands.Ask) -> bool:
    """Does this cluster bind tasks to CPUs? Slurm's controller may be restarting now."""
    deadline = time.monotonic() + CONFIG_S
    while (answer := ask("scontrol", "show", "config")).code and time.monotonic() < deadline:
        time.sleep(1)
    if answer.code:
        raise HostNotReady(f"Slurm does not say its configuration: {answer.words}")
    lines = answer.out.splitlines()
    return any(line.startswith("TaskPlugin ") and ("affinity" in line or "cgroup" in line) for line in lines)


def _start(paths: RunPaths) -> None:
    """Start the run's background process as an orphan: Slurm's signals to the job's script must not reach it."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            start_background(paths, Passwords())
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
    while is_locked(paths.background_lock):
        if signals.count > heard:
            cause = cause or _cause(paths, job_id, ask)
            write_json(paths.stop_request(now=False), {"reason": f"Slurm job {job_id} {cause.words}"})
            heard = signals.count
        time.sleep(TICK_S)
    return cause


def _cause(paths: RunPaths, job_id: str, ask: slurm_commands.Ask) -> Ending:
    """Why Slurm sent its signal. Its daemon writes that to the job's output, at about the same time."""
    time.sleep(CAUSE_S)
    output = paths.engine / OUTPUT
    text = output.read_text(errors="replace") if output.exists() else ""
    fields = slurm_commands.fields_of(ask("scontrol", "show", "job", job_id, "--oneliner").out)
    within_s = EARLY_S + float(read_json(paths.job).get("grace") or 0)
    return slurm_states.cause_of_signal(text, fields, now=time.time(), within_s=within_s)


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


def main() -> None:
    """Exit with the run's exit code."""
    paths = RunPaths(Path(sys.argv[1]))
    with paths.engine_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            code = control(paths, slurm_commands.ask)
        except DdpPlayError as error:
            sys.stderr.write(f"{error}\n")
            code = error.exit_code
    sys.exit(code)


if __name__ == "__main__":
    main()
