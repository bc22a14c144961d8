"""A small Slurm cluster for all tests of this directory, and ddp-play on its login node: this machine.

Where Slurm is not installed, these tests are skipped with the reason; DDP_PLAY_REQUIRE_SLURM=1 makes that a failure.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.played import print_played
from tests.required import skip_or_fail
from tests.run.conftest import living, play
from tests.slurm.cluster import NODES, Cluster
from tests.slurm.machine import lacking
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.run.conftest import Play

__all__ = ["play"]

# Under the load of other tests a job takes several times as long as the 6 s that it takes alone.
PATIENCE_S = 90.0
LONG = pytest.mark.skipif(os.environ.get("DDP_PLAY_WIDE") != "1", reason="takes a minute: DDP_PLAY_WIDE=1 runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need the cluster."""
    for item in items:
        if "tests/slurm" in str(item.path):
            item.add_marker(pytest.mark.slurm)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The rows of the fault table that were played here."""
    print_played(terminalreporter)


def started(directory: Path, reason: str, **options: Any) -> Iterator[Cluster]:
    """A cluster while a fixture lasts. `reason`: why this machine has none, which skips the tests or fails them."""
    if reason:
        skip_or_fail("SLURM", reason)
    made = Cluster(directory, **options)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, a controller and munge."""
    yield from started(tmp_path_factory.mktemp("slurm"), lacking())


@dataclass
class Login:
    """ddp-play on a login node, with a job of two nodes and two ranks on each."""

    play: Play
    cluster: Cluster

    def job(self, command: str, *, before: str = "", **variables: Any) -> list[str | Path]:
        """Arguments of `run` for a job of this shell command. Each node has a state directory of its own.

        The inventory's address is for SSH alone, and nobody has it.
        """
        common = {"ddp_slots": 50, "ansible_python_interpreter": sys.executable, "ansible_host": "192.0.2.1"}
        nodes = {node: {**common, "ddp_state_dir": str(self.play.host_dir / node)} for node in NODES}
        hosts = self.play.write("hosts.json", json.dumps({"ranks": {"hosts": nodes}}))
        values = {"hosts": 2, "ranks_per_host": 2, "gpus": "none", "command": ["sh", "-c", command], **variables}
        return [
            "run",
            self.play.job(values, before=before),
            "-i",
            hosts.rename(hosts.with_suffix(".yml")),
            "--on",
            "slurm",
        ]

    def run_dir(self, name: str) -> Path:
        """The bundle of a run."""
        return self.play.home / "runs" / name

    def allocation(self, name: str) -> dict[str, Any]:
        """What the bundle knows of the run's Slurm job."""
        found: dict[str, Any] = json.loads((self.run_dir(name) / "engine" / "allocation.json").read_text())
        return found

    def document(self, name: str) -> dict[str, Any]:
        """The run's run.json."""
        return self.play.document(self.run_dir(name))

    def wait_for(self, name: str, status: str) -> None:
        """Wait until run.json has this status."""
        wait_until(lambda: self.document(name)["status"] == status, timeout_s=PATIENCE_S, what=f"{name} {status}")

    def bring_back(self, node: str) -> None:
        """Let a node that was lost answer again."""
        self.cluster.start_node(node)
        self.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)

    def slurm_job(self, name: str) -> dict[str, str]:
        """The run's Slurm job when it is over."""
        job_id = self.allocation(name)["id"]
        living_states = ("PENDING", "RUNNING", "COMPLETING")
        wait_until(
            lambda: self.cluster.job(job_id)["JobState"] not in living_states,
            timeout_s=PATIENCE_S,
            what="end of the job",
        )
        return self.cluster.job(job_id)


@pytest.fixture
def login(play: Play, cluster: Cluster) -> Iterator[Login]:
    """A login node; afterwards nothing of its runs is left on the nodes or in the queue."""
    for node in NODES:
        (play.host_dir / node).mkdir(parents=True)
    path = f"{play.env()['PATH']}:{cluster.environment['PATH']}"
    play.environment = {"SLURM_CONF": cluster.environment["SLURM_CONF"], "PATH": path}
    yield Login(play, cluster)
    cluster.end_jobs(PATIENCE_S)
    wait_until(lambda: not living(str(play.host_dir)), timeout_s=PATIENCE_S, what="the end of all guards")


@pytest.fixture
def busy(cluster: Cluster) -> Iterator[str]:
    """A job of somebody else on all nodes; its id."""
    options = ("--exclusive", "--nodes=3", "--time=30", "--output=/dev/null")
    job_id = cluster.run("sbatch", "--parsable", *options, "--wrap", "sleep 600").strip()
    wait_until(lambda: cluster.job(job_id)["JobState"] == "RUNNING", timeout_s=PATIENCE_S, what="the other job")
    yield job_id
    cluster.run("scancel", job_id, check=False)
