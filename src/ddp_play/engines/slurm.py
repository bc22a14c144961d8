"""Engine `slurm`: the hosts are a job's nodes, the controller is the job's script, channels are steps of the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from ddp_play.engines import slurm_commands, slurm_states
from ddp_play.engines.interface import SCRIPT, Allocation, AllocationState, Phase
from ddp_play.engines.slurm_limits import check_cluster, check_job, cluster_from
from ddp_play.engines.slurm_script import sbatch_options, script
from ddp_play.errors import HostNotReady, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.engines.interface import Wanted
    from ddp_play.engines.route import Route
    from ddp_play.engines.slurm_commands import Answer, Ask
    from ddp_play.engines.slurm_limits import Cluster
    from ddp_play.planning.job import Job

SRUN = "srun"
GONE = "Invalid job id"
NO_ACCOUNTING = "accounting storage is disabled"
# For a step whose program has read the end of its input.
END_S = 1.0


class SlurmEngine:
    """Nodes of a Slurm job. `ask` runs one of Slurm's commands."""

    name = "slurm"
    over = "the Slurm job, through which it was reached, ends with the run"

    def __init__(self, ask: Ask = slurm_commands.ask) -> None:
        self._ask = ask

    def allocate(self, wanted: Wanted) -> Allocation:
        """Submit a job whose script is the run's controller.

        UsageError or HostNotReady if the cluster could never start it, or refuses it.
        """
        check_job(wanted.job)
        check_cluster(wanted.job, self._cluster(wanted.job))
        directory = wanted.run_dir / "engine"
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / SCRIPT
        path.write_text(script(wanted, sys.executable, _environment()), encoding="utf-8")
        path.chmod(0o700)
        try:
            answer = self._ask("sbatch", "--parsable", *sbatch_options(wanted), str(path))
        except KeyboardInterrupt:
            self._cancel_submitted(wanted, path)
            raise
        if answer.silent_controller:
            self._cancel_submitted(wanted, path)
            raise HostNotReady(f"Slurm does not answer: {answer.words}", hint="sinfo; then run it again")
        if answer.code:
            raise UsageError(
                f"Slurm refuses the job: {_refusal(answer)}", hint="sinfo -s; sacctmgr show assoc user=$USER"
            )
        job_id = answer.out.strip().split(";")[0]
        return Allocation(self.name, job_id, has_controller=True, requeues=bool(wanted.job.restarts))

    def _cancel_submitted(self, wanted: Wanted, path: Path) -> None:
        """Cancel what sbatch may have submitted before its answer was lost: the jobs with this script."""
        rows = self._ask("squeue", "--noheader", f"--name={wanted.run_id}", "--format=%i %o").out.splitlines()
        for row in rows:
            job_id, _, command = row.partition(" ")
            if command.strip() == str(path):
                self._ask("scancel", job_id)

    def state(self, allocation: Allocation) -> AllocationState:
        """State of the job, from the controller or, when it has forgotten the job, from the accounting."""
        try:
            return self._state(allocation)
        except HostNotReady as error:  # no Slurm on this machine, which has the user's bundles
            return AllocationState(Phase.UNKNOWN, str(error))

    def _state(self, allocation: Allocation) -> AllocationState:
        answer = self._ask("scontrol", "show", "job", allocation.id, "--oneliner")
        if answer.code == 0:
            fields = slurm_commands.fields_of(answer.out)
            if lost := self._lost_controller(fields):
                return lost
            pending = fields.get("JobState") in slurm_states.PENDING
            return slurm_states.job_state(fields, self._place(allocation.id, fields) if pending else "")
        if GONE not in answer.err:
            return AllocationState(Phase.UNKNOWN, f"Slurm does not answer: {answer.words}")
        row = self._ask("sacct", "-nXP", "-o", "State,ExitCode", "-j", allocation.id)
        if row.code and NO_ACCOUNTING not in row.err:
            return AllocationState(Phase.UNKNOWN, f"Slurm's accounting does not answer: {row.words}")
        found = slurm_states.accounting_state(row.out)
        return found or slurm_states.job_state({})

    def _lost_controller(self, fields: dict[str, str]) -> AllocationState | None:
        """The state of a job that goes on without the node of its script, as `--no-kill` has it; None for others."""
        host, nodes = fields.get("BatchHost", ""), fields.get("NodeList", "")
        if fields.get("JobState") != "RUNNING" or not host or not nodes:
            return None
        answer = self._ask("scontrol", "show", "hostnames", nodes)
        if answer.code or host in answer.out.split():
            return None
        ending = slurm_states.ending("NODE_FAIL", "", host)
        return AllocationState(Phase.GRANTED, f"{ending.words}, on which its controller was", ending=ending)

    def cancel(self, allocation: Allocation) -> None:
        """Cancel the job. HostNotReady if Slurm does not answer."""
        answer = self._ask("scancel", allocation.id)
        if answer.code and GONE not in answer.err:
            raise HostNotReady(
                f"Slurm job {allocation.id} was not cancelled: {answer.words}", hint=f"scancel {allocation.id}"
            )

    def carries(self, route: Route) -> bool:
        """Steps."""
        return route.program == SRUN

    def fresh(self, route: Route) -> Route:
        """Each step is one already."""
        return route

    def usable(self, route: Route) -> Route:
        """As it is."""
        return route

    def interactive(self, route: Route, command: str, *, terminal: bool) -> list[str]:
        """A step of its own, with a terminal if the person has one."""
        return [route.argv[0], *(["--pty"] if terminal else []), *route.argv[1:], command]

    def end(self, client: subprocess.Popen[bytes]) -> None:
        """SIGKILL for srun and its second process at once: any other end of srun ends the step and its guard."""
        try:
            client.wait(END_S)  # the step ends by itself where no guard lives
        except subprocess.TimeoutExpired:
            os.killpg(client.pid, signal.SIGKILL)
            client.wait()

    def no_connection(self, route: Route, code: int | None) -> bool:  # noqa: ARG002 - the interface's
        """srun ends with 1 for this and for other reasons; its words say why."""
        return False

    def _cluster(self, job: Job) -> Cluster:
        version = self._ask("sbatch", "--version")
        config, partitions = (
            self._ask("scontrol", "show", *what) for what in (("config",), ("partition", "--oneliner", "--all"))
        )
        for answer in (config, partitions):
            if answer.code:
                raise HostNotReady(f"Slurm does not answer: {answer.words}", hint="sinfo; is this a login node?")
        options = self._ask("srun", "--help").out if job.chosen_runtime == "pyxis" else ""
        return cluster_from(version.out, config.out, partitions.out, options)

    def _place(self, job_id: str, fields: dict[str, str]) -> str:
        partition = fields.get("Partition", "").split(",")[0]
        rows = self._ask("squeue", "-ah", "-t", "PD", "-p", partition, "--sort=-p,i", "-o", "%i %P")
        return slurm_states.place_in_queue(rows.out, job_id) if rows.code == 0 else ""


def _environment() -> dict[str, str]:
    """What the controller needs although a site's prolog may have changed it."""
    names = ("DDP_PLAY_HOME", "SLURM_CONF")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def _refusal(answer: Answer) -> str:
    lines = [line.split("error: ", 1)[-1] for line in answer.err.splitlines() if "error: " in line]
    return "; ".join(lines) or answer.words
