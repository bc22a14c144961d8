"""Nodes of the Slurm job around this process: their names, and the inventory through which Ansible reaches them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.plan_action import SPARES
from ddp_play.ansible.plugin_variables import ENGINE_ENV
from ddp_play.errors import HostNotReady
from ddp_play.run.job_reading import GROUP

if TYPE_CHECKING:
    from ddp_play.engines.slurm_commands import Ask

CONNECTION = "ddp.play.slurm_step"
# Slurm's controller is back within this time after a restart.
CONFIG_S = 120.0
# For these a step would refuse its own options.
REFUSED_BY_STEPS = ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_CPU_BIND", "SLURM_NTASKS")


def use_engine() -> str:
    """Prepare this process's environment for steps and plays on the nodes. Returns the job's id."""
    for name in REFUSED_BY_STEPS:
        os.environ.pop(name, None)
    os.environ[ENGINE_ENV] = "slurm"
    return os.environ["SLURM_JOB_ID"]


def job_hosts(ask: Ask) -> list[str]:
    """Names of the job's nodes. HostNotReady if Slurm does not say them."""
    answer = ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"])
    if answer.code or not answer.out.split():
        raise HostNotReady(f"Slurm does not name the nodes of this job: {answer.words}")
    return answer.out.split()


def inventory(hosts: list[str], job_id: str, *, binding: bool, num_spares: int = 0) -> dict[str, Any]:
    """Inventory of the nodes: all in the group `ranks`, the last ones in `spares` too, reached by steps of the job."""
    variables = {"ansible_connection": CONNECTION, "ansible_slurm_job": job_id, "ansible_slurm_binding": binding}
    nodes = {host: {**variables, "ansible_slurm_node": host} for host in hosts}
    groups: dict[str, Any] = {GROUP: {"hosts": nodes}}
    if num_spares:
        groups[SPARES] = {"hosts": {host: {} for host in hosts[-num_spares:]}}
    return groups


def binds_tasks(ask: Ask) -> bool:
    """Does this cluster bind tasks to CPUs?"""
    return any(name in _setting(ask, "TaskPlugin") for name in ("affinity", "cgroup"))


def signals_script_alone(ask: Ask) -> bool:
    """Do signals of Slurm at the end of a job not reach what its script started?"""
    return "cgroup" in _setting(ask, "ProctrackType")


def _setting(ask: Ask, name: str) -> str:
    """A setting of the cluster, empty if it has none. Slurm's controller may be restarting now."""
    deadline = time.monotonic() + CONFIG_S
    while (answer := ask("scontrol", "show", "config")).code and time.monotonic() < deadline:
        time.sleep(1)
    if answer.code:
        raise HostNotReady(f"Slurm does not say its configuration: {answer.words}")
    return next((line for line in answer.out.splitlines() if line.startswith(f"{name} ")), "")
