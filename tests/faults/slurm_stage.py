"""Fault rows on a Slurm cluster: its nodes are the hosts of the table, and channels are steps of the run's job."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.endings import kill_each
from tests.faults.stage import HOSTS, Here
from tests.run.conftest import living

if TYPE_CHECKING:
    from tests.slurm.cluster import Cluster

# A job is gone from the queue this long after its end, also on a busy machine; a lost node counts as lost after 30 s.
GONE_S = 120.0
# Jobs of the run that Slurm still has, the daemons of their steps, and their control groups.
OF_SLURM = r"""
squeue --noheader --format=%i --name=$run | sed 's/^/job /'
for job in $(sed -n 's/.*"id": "\([0-9]*\)".*/\1/p' {home}/runs/$run/engine/allocation.json 2>/dev/null); do
  for step in $(pgrep -f "^slurmstepd: \[$job[.]"); do
    ls -l /proc/$step/fd | grep -q " {cluster}/" && echo step $step  # of this cluster: its log is open
  done
  test {tracking} != cgroup || ls -d /sys/fs/cgroup/*/slurm_h[1-3]/uid_*/job_$job 2>/dev/null | sed 's/^/cgroup /'
done
"""


@dataclass
class OnSlurm(Here):
    """Three nodes of a cluster on this machine; each has a state directory of its own.

    `inventory` names the same hosts without Slurm: what a job has left on nodes is swept when the job is over.
    """

    cluster: Cluster = field(kw_only=True)
    name: str = "slurm"

    def __post_init__(self) -> None:
        self.nodes = self.root / "nodes.json"
        for name in HOSTS:
            Path(self.host_dir(name)).mkdir(parents=True, mode=0o700)  # as the program makes one
            # a scope of its own for the slots of each node: all are names of this machine
            script = f'#!/bin/sh\nDDP_PLAY_HOST_DIR={self.host_dir(name)} exec {sys.executable} "$@"\n'
            Path(self.interpreter(name)).write_text(script)
            Path(self.interpreter(name)).chmod(0o755)
        super().__post_init__()
        self.run_options = ("-i", str(self.nodes), "--on", "slurm")
        self.also_left = OF_SLURM.format(home=self.home, cluster=self.cluster.directory, tracking=self.cluster.tracking)

    def write_inventory(self, **variables: Any) -> None:
        """The three nodes, with these variables besides, and the same hosts reached without Slurm."""
        super().write_inventory(**variables)
        hosts = {name: {**self.variables(name), **variables} for name in HOSTS}
        self.nodes.write_text(json.dumps({"ranks": {"hosts": hosts}}))

    def variables(self, host: str) -> dict[str, Any]:
        return {**super().variables(host), "ddp_state_dir": self.host_dir(host)}

    def interpreter(self, host: str) -> str:
        return str(self.root / f"python-{host}")

    def environment(self) -> dict[str, str]:
        found = {**super().environment(), "SLURM_CONF": self.cluster.environment["SLURM_CONF"]}
        found["PATH"] += os.pathsep + self.cluster.environment["PATH"]
        del found["DDP_PLAY_HOST_DIR"]
        return found

    def on(self, host: str, script: str) -> str:
        return super().on(host, f"export SLURM_CONF={self.cluster.environment['SLURM_CONF']}\n{script}")

    def host_dir(self, host: str) -> str:
        return str(self.root / "host" / host)

    def job(self, variables: dict[str, Any], *, containers: bool) -> dict[str, Any]:
        """Slurm chooses the spare node: the last one."""
        wanted = dict(super().job(variables, containers=containers))
        spares = len(wanted.pop("spares", ()))
        return {"hosts": len(HOSTS) - spares, "slurm": {"spares": spares}, **wanted}

    def power_off(self, host: str) -> None:
        """All that the node runs ends at once, its daemon first."""
        self.cluster.power_off(host, self.host_dir(host))

    def power_on(self, host: str) -> None:
        """Its daemon starts, and Slurm gives jobs to it."""
        self.cluster.start_node(host)
        self.cluster.wait_idle(GONE_S)

    def leave(self) -> None:
        """Whatever the row did: no job of it is left, no process, and the cluster is idle."""
        self.cluster.tidy(GONE_S)
        kill_each(living(str(self.root / "host")))
