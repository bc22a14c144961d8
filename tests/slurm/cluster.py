"""A Slurm cluster of some nodes on this machine: real daemons, a configuration and a munge key of their own.

`python -m tests.slurm.cluster DIRECTORY` starts one and prints how to use it, until Ctrl-C.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.endings import kill_each
from tests.run.conftest import living
from tests.slurm.daemons import start_daemon
from tests.slurm.machine import SEARCH_PATH, free_ports
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
EPILOG = ROOT / "roles" / "slurm" / "templates" / "epilog.sh.j2"
NODES = ("n1", "n2", "n3")
START_S = 120.0

CONFIGURATION = """\
ClusterName=small
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
SlurmdParameters=config_overrides
KillWait={kill_wait_s}
OverTimeLimit=0
InactiveLimit=0
ReturnToService=2
SlurmdTimeout=30
JobRequeue=1
Epilog={directory}/epilog.sh
MinJobAge=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2 {memory}State=UNKNOWN
PartitionName=main Nodes={nodes} Default=YES MaxTime=60 State=UP
PartitionName=urgent Nodes={nodes} PriorityTier=10 MaxTime=60 State=UP
PartitionName=small Nodes={node} MaxTime=2 MaxNodes=1 State=UP
PartitionName=closed Nodes={nodes} State=DOWN
"""
# For proctrack/cgroup: version 1, which needs no systemd to ask for groups.
CONTROL_GROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainRAMSpace=yes
"""


@dataclass
class Cluster:
    """A running cluster; its daemons are children of this process."""

    directory: Path
    kill_wait_s: int = 30
    nodes: tuple[str, ...] = NODES
    tracking: str = "linuxproc"  # or cgroup
    memory_mib: int = 0  # of each node; 0: not managed by Slurm
    lines: tuple[str, ...] = ()  # further ones of slurm.conf, in place of all lines of their name
    programs: Path | None = None  # its directory of a node's name has programs that the daemon there finds first
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to use this cluster."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf"), "PATH": SEARCH_PATH}

    def start(self, before_controller: Callable[[Cluster], None] | None = None) -> None:
        """Start all daemons and wait until every node is idle. `before_controller` starts what Slurm itself needs."""
        self._prepare()
        self._start_munge()
        if before_controller:
            before_controller(self)
        self._daemon("slurmctld", "slurmctld", "-D", "-i")
        for node in self.nodes:
            self.start_node(node)
        self.wait_idle()

    def wait_idle(self, timeout_s: float = START_S) -> None:
        """Wait until every node is idle."""
        wait_until(lambda: self._idle() == len(self.nodes), timeout_s=timeout_s, what="every node idle")

    def end_jobs(self, timeout_s: float) -> None:
        """Cancel all jobs, also those that Slurm has put back into the queue meanwhile."""
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            self.run("scancel", f"--state={state}", check=False)
        self.wait_empty(timeout_s)

    def tidy(self, timeout_s: float) -> None:
        """Whatever has happened: every daemon runs, no job is left, every node is idle."""
        for node in self.nodes:
            if node not in self.daemons:
                self.start_node(node)
        self.end_jobs(timeout_s)
        self.wait_idle(timeout_s)

    def wait_empty(self, timeout_s: float, *, check: bool = True) -> None:
        """Wait until no job is there, also none whose last steps are just ending."""
        wait_until(
            lambda: not self.run("squeue", "-h", check=check).strip(), timeout_s=timeout_s, what="an empty queue"
        )

    def start_node(self, node: str) -> None:
        """Start the daemon of a node, also after `kill_node`."""
        path = f"{self.programs / node}{os.pathsep}{SEARCH_PATH}" if self.programs else SEARCH_PATH
        self._daemon(node, "slurmd", "-D", "-N", node, path=path)

    def kill_node(self, node: str) -> None:
        """End a node's daemon as a power failure would: without a word to the controller."""
        daemon = self.daemons.pop(node)
        daemon.kill()
        daemon.wait()

    def power_off(self, node: str, *words: str) -> None:
        """End all that a node runs, its daemon first. `words`: also what has one of these in its environment."""
        self.kill_node(node)
        of_node = {*living(f"SLURMD_NODENAME={node}")} & {*living(f"SLURM_CONF={self.directory}/")}
        there = of_node | {pid for word in words for pid in living(word)}
        kill_each({pid for pid in map(_parent, there) if _name(pid).startswith("slurmstepd")} | there)

    def problem(self) -> str:
        """What the daemons say, for a failed start."""
        logs = [self.directory / "slurmctld.log", *(self.directory / f"slurmd.{node}.log" for node in self.nodes)]
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs if log.exists())

    def run(self, *words: str, check: bool = True) -> str:
        """The output of one of Slurm's commands."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
        if check and done.returncode:
            raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def job(self, job_id: str) -> dict[str, str]:
        """Fields of a job as `scontrol` shows them."""
        words = self.run("scontrol", "show", "job", job_id, "--oneliner").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def stop(self) -> None:
        """Cancel what runs, then end the daemons, the nodes first."""
        try:
            if "slurmctld" in self.daemons:
                self.run("scancel", "--full", "--signal=KILL", "--state=RUNNING", check=False)
                self.run("scancel", "--user", str(os.getuid()), check=False)
                self.wait_empty(START_S, check=False)
        finally:
            for name in (*self.nodes, "slurmctld", "munged"):
                self._end(name)

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "state").mkdir()
        controller, *ports = free_ports(1 + len(self.nodes))
        text = CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            directory=self.directory,
            controller=controller,
            first=ports[0],
            last=ports[-1],
            kill_wait_s=self.kill_wait_s,
            tracking=self.tracking,
            nodes=",".join(self.nodes),
            node=self.nodes[0],
            memory=f"RealMemory={self.memory_mib} " if self.memory_mib else "",
        )
        epilog = self.directory / "epilog.sh"  # that of role slurm, in which nothing is to be filled in
        epilog.write_text(EPILOG.read_text())
        epilog.chmod(0o755)
        given = {line.partition("=")[0] for line in self.lines}
        kept = [line for line in text.splitlines() if line.partition("=")[0] not in given]
        (self.directory / "slurm.conf").write_text("\n".join((*kept, *self.lines, "")))
        (self.directory / "cgroup.conf").write_text(CONTROL_GROUPS)

    def _start_munge(self) -> None:
        key = self.directory / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = ("socket", "pid", "log", "seed")
        names = {"socket": "socket", "pid": "pid-file", "log": "log-file", "seed": "seed-file"}
        options = [f"--{names[name]}={self.directory}/munge.{name}" for name in files]
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", *options)
        wait_until((self.directory / "munge.socket").exists, timeout_s=START_S, what="munged")

    def _daemon(self, name: str, program: str, *arguments: str, path: str = SEARCH_PATH) -> None:
        output = self.directory / f"{name}.out"
        self.daemons[name] = start_daemon(output, {**self.environment, "PATH": path}, program, *arguments)

    def _end(self, name: str) -> None:
        daemon = self.daemons.pop(name, None)
        if daemon is None:
            return
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _idle(self) -> int:
        states = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T", check=False).split()
        return states.count("idle")


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def main() -> None:
    """Start a cluster and keep it until Ctrl-C or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    cluster = Cluster(Path(sys.argv[1]).absolute())
    try:
        cluster.start()
        sys.stdout.write(f"export SLURM_CONF={cluster.directory}/slurm.conf\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
