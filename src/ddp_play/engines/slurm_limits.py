"""Checks of a job against a Slurm cluster before it is submitted: what the cluster could never start or keep. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.engines.slurm_commands import fields_of
from ddp_play.engines.slurm_script import limit_s, time_limit
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.apptainer_images import for_apptainer
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from ddp_play.planning.job import Job

# The series in which all that the engine uses was measured; `srun --overlap` came with 20.11.
OLDEST = (22, 5)
# Of pyxis, which is a plugin of srun.
PYXIS_OPTION = "--container-image"
HOSTS_HINT = "ddp_job_hosts: 4, or a range such as 2..4 (on the command line: -e ddp_job_hosts=4)"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What Slurm says about itself: its version, KillWait in seconds, and its partitions."""

    version: str
    kill_wait_s: float
    partitions: dict[str, dict[str, str]]
    has_pyxis: bool = False  # is srun's option for images there, on this machine?

    @property
    def default(self) -> str:
        """The default partition; empty if there is none."""
        return next((name for name, row in self.partitions.items() if row.get("Default") == "YES"), "")


def cluster_from(version: str, config: str, partitions: str, srun_help: str = "") -> Cluster:
    """From `sbatch --version`, `scontrol show config`, `scontrol show partition --oneliner` and `srun --help`."""
    wait = re.search(r"^KillWait\s*=\s*(\d+)", config, re.MULTILINE)
    rows = [fields_of(line) for line in partitions.splitlines() if line.strip()]
    known = {row["PartitionName"]: row for row in rows if "PartitionName" in row}
    return Cluster(version.strip().split(" ")[-1], float(wait[1]) if wait else 30.0, known, PYXIS_OPTION in srun_help)


def check_job(job: Job) -> None:
    """UsageError for what no Slurm cluster runs, whatever its size."""
    if job.chosen_runtime == "docker":
        raise UsageError(
            "runtime docker does not go with Slurm: its containers are children of the Docker daemon, outside the "
            "job's cgroup, so that Slurm's limits and scancel would not reach them",
            hint=f"ddp_job_runtime: apptainer with ddp_job_image: {for_apptainer(job.image)} runs it inside the job, "
            "by the nodes' Apptainer; or ddp_job_runtime: process",
        )
    if job.backend == "mpi":
        raise UsageError(
            "backend mpi is not supported under Slurm yet: whose PMI the ranks would find is not decided",
            hint="ddp_job_backend: gloo or nccl",
        )
    low, high = job.hosts
    if not low or not high:
        raise UsageError(
            "ddp_job_hosts says how many nodes to ask Slurm for, and it is not set or has no upper end",
            hint=HOSTS_HINT,
        )


def check_cluster(job: Job, cluster: Cluster) -> None:
    """UsageError or HostNotReady if this cluster could not start the job, or would break its promises."""
    _check_version(cluster.version)
    if job.chosen_runtime == "pyxis" and not cluster.has_pyxis:
        raise HostNotReady(
            f"ddp_job_runtime is pyxis, and srun on this machine has no {PYXIS_OPTION}: the cluster lacks the plugin, "
            "or plugstack.conf here does not name it",
            hint="have enroot and pyxis (github.com/NVIDIA/pyxis, built for this Slurm) installed on the login node "
            "and on all nodes; or ddp_job_runtime: apptainer",
        )
    names = [name for name in (job.slurm.partition or cluster.default).split(",") if name]
    for name in names:
        if name not in cluster.partitions:
            raise UsageError(
                f"this cluster has no partition {name}", hint=f"it has {short_list(sorted(cluster.partitions), 10)}"
            )
    if job.grace > cluster.kill_wait_s:
        raise HostNotReady(
            f"ddp_job_grace is {job.grace:g} s, but this cluster kills what is left after "
            f"KillWait={cluster.kill_wait_s:g} s: after scancel, ranks would not have the time that they were promised",
            hint=f"ddp_job_grace: {cluster.kill_wait_s:g}, or have KillWait raised in slurm.conf",
        )
    _check_time(job)
    problems = [_partition_problem(job, name, cluster.partitions[name]) for name in names]
    if problems and all(problems):
        raise UsageError("\n".join(problems), hint="sinfo -s shows the partitions; --slurm partition=NAME chooses one")


def _check_version(version: str) -> None:
    numbers = re.findall(r"\d+", version)[:2]
    if len(numbers) == 2 and (int(numbers[0]), int(numbers[1])) < OLDEST:
        raise HostNotReady(
            f"Slurm {version} is too old: 22.05 or newer is needed", hint="run the job over SSH: leave out --on slurm"
        )


def _check_time(job: Job) -> None:
    """UsageError if Slurm's time limit, as given, would end the job before its own."""
    limit = limit_s(job.slurm.time)
    if job.max_duration and limit is not None and limit < job.max_duration + job.grace:
        raise UsageError(
            f"Slurm's time limit {job.slurm.time} is shorter than ddp_job_max_duration and ddp_job_grace "
            f"({job.max_duration + job.grace:g} s)",
            hint="leave out the time: it then follows from ddp_job_max_duration",
        )


def _partition_problem(job: Job, name: str, row: dict[str, str]) -> str:
    """Why this partition could never start the job; empty if it could."""
    if problem := _size_problem(job, name, row):
        return problem
    accounts = row.get("AllowAccounts", "ALL")
    if job.slurm.account and accounts != "ALL" and job.slurm.account not in accounts.split(","):
        return f"account {job.slurm.account} may not use partition {name}: it allows {accounts}"
    if (qos := job.slurm.qos) and row.get("AllowQos", "ALL") != "ALL" and qos not in row["AllowQos"].split(","):
        return f"QOS {qos} may not use partition {name}: it allows {row['AllowQos']}"
    return ""


def _size_problem(job: Job, name: str, row: dict[str, str]) -> str:
    """What is over the partition's limits. A QOS may lift all of them but the number of nodes; Slurm says it later."""
    low = job.hosts[0] + job.slurm.spares
    for field, what in (("TotalNodes", "has"), *(() if job.slurm.qos else (("MaxNodes", "allows a job"),))):
        most = row.get(field, "")
        if most.isdigit() and low > int(most):
            return f"the job wants {low} nodes, and partition {name} {what} {most}"
    wanted, most_s = limit_s(time_limit(job)), limit_s(row.get("MaxTime", ""))
    if wanted is not None and most_s is not None and wanted > most_s and not job.slurm.qos:
        return f"the job wants {wanted / 60:g} min, and partition {name} allows {most_s / 60:g} min ({row['MaxTime']})"
    return ""
