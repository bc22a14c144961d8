"""Jobs that a cluster could never start, or could not keep its promises to, are refused before they wait."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.engines.slurm_limits import Cluster, check_cluster, check_job, cluster_from
from ddp_play.errors import DdpPlayError, HostNotReady, UsageError
from ddp_play.planning.job import Job, parse_job

CONFIG = "Configuration data as of 2026-11-25\nKillOnBadExit           = 0\nKillWait                = 30 sec\n"
PARTITIONS = (
    "PartitionName=main AllowAccounts=ALL AllowQos=ALL Default=YES MaxNodes=UNLIMITED MaxTime=01:00:00 TotalNodes=3\n"
    "PartitionName=small AllowAccounts=lab AllowQos=normal Default=NO MaxNodes=1 MaxTime=00:02:00 TotalNodes=2\n"
)
CLUSTER = cluster_from("slurm-wlm 22.05.8\n", CONFIG, PARTITIONS)


def job(**values: Any) -> Job:
    return parse_job({"command": ["true"], "hosts": 2, **values})


def test_a_cluster_without_the_plugin_is_refused_with_what_to_install() -> None:
    values = {"runtime": "pyxis", "image": "/x.sqsh"}
    check_job(job(**values))
    with pytest.raises(HostNotReady, match="srun on this machine has no --container-image") as caught:
        check_cluster(job(**values), CLUSTER)
    assert "enroot and pyxis" in caught.value.hint
    options = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
    check_cluster(job(**values), cluster_from("slurm-wlm 22.05.8\n", CONFIG, PARTITIONS, options))


def test_what_slurm_says_about_itself() -> None:
    assert (CLUSTER.version, CLUSTER.kill_wait_s, CLUSTER.default) == ("22.05.8", 30.0, "main")
    assert CLUSTER.partitions["small"]["MaxNodes"] == "1"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"slurm": {"time": "60"}},
        {"max_duration": "30m"},
        {"hosts": "2..3"},
        {"hosts": 1, "slurm": {"partition": "small", "account": "lab", "qos": "normal"}},
        {"slurm": {"partition": "small,main"}},  # one of them can start it
        {"slurm": {"partition": "small", "qos": "normal", "time": "90"}},  # a QOS may lift a partition's limits
    ],
)
def test_jobs_that_fit(values: dict[str, Any]) -> None:
    check_job(job(**values))
    check_cluster(job(**values), CLUSTER)


SMALL = {"hosts": 1, "slurm": {"partition": "small"}}


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"slurm": {"partition": "nope"}}, UsageError, "this cluster has no partition nope"),
        ({"hosts": 4}, UsageError, "the job wants 4 nodes, and partition main has 3"),
        ({"slurm": {"partition": "small"}}, UsageError, "the job wants 2 nodes, and partition small allows a job 1"),
        ({"slurm": {"time": "2:00:00"}}, UsageError, "the job wants 120 min, and partition main allows 60 min"),
        ({"max_duration": "1h"}, UsageError, "the job wants 63 min, and partition main allows 60 min"),
        ({"hosts": 1, "slurm": {"partition": "small", "account": "x"}}, UsageError, "account x may not use"),
        ({"hosts": 1, "slurm": {"partition": "small", "qos": "x"}}, UsageError, "QOS x may not use partition small"),
        ({"grace": 31}, HostNotReady, "KillWait=30 s"),
        ({"max_duration": "10m", "slurm": {"time": "10"}}, UsageError, "is shorter than ddp_job_max_duration"),
    ],
)
def test_jobs_that_do_not_fit(values: dict[str, Any], kind: type[DdpPlayError], message: str) -> None:
    with pytest.raises(kind, match=message.replace("(", r"\(")) as refused:
        check_cluster(job(**values), CLUSTER)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image": "team/train:2"}, "runtime docker does not go with Slurm"),
        ({"backend": "mpi"}, "backend mpi is not supported under Slurm yet"),
        ({"hosts": "all"}, "ddp_job_hosts says how many nodes"),
        ({"hosts": "2.."}, "has no upper end"),
    ],
)
def test_jobs_that_no_cluster_runs(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_job(job(**values))


@pytest.mark.parametrize("version", ["20.11.9", "21.08.8-2", "slurm 22.04.1"])
def test_an_old_version_is_refused(version: str) -> None:
    with pytest.raises(HostNotReady, match="is too old"):
        check_cluster(job(), Cluster(version, 30.0, CLUSTER.partitions))
