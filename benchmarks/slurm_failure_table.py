"""Ten failures of a job on a Slurm cluster, and how each is brought about: those that the job cannot do to itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.rivals.slurm_tools import Place
    from tests.slurm.cluster import Cluster

STARTED_S = 90.0
LONG, SHORT = 10, 1  # minutes


@dataclass(frozen=True)
class Failure:
    """A failure. `before` the submission, `act` when the ranks run; `minutes`: Slurm's time limit."""

    name: str
    minutes: int = LONG
    before: Callable[[Stand], None] | None = None
    act: Callable[[Stand], None] | None = None


@dataclass
class Stand:
    """The cluster, and the job that a tool has submitted."""

    cluster: Cluster
    place: Place
    output: Path
    job: str = ""

    def started(self) -> bool:
        """Do ranks run? Each says so in some log below the directory."""
        logs = [
            path for path in self.place.directory.rglob("*") if path.is_file() and path.suffix not in (".py", ".db")
        ]
        return any(b"of 4 started" in path.read_bytes() for path in logs)

    def wait_started(self) -> None:
        """Wait until the ranks run."""
        wait_until(self.started, timeout_s=STARTED_S, what="ranks run", every_s=0.3)
        time.sleep(1)


def lose_node(stand: Stand) -> None:
    """The second node loses power."""
    stand.wait_started()
    node = stand.place.nodes[1]
    stand.cluster.power_off(node, str(stand.place.directory / node))


def cancel(stand: Stand) -> None:
    """A person cancels the job."""
    stand.wait_started()
    stand.cluster.run("scancel", stand.job)


def preempt(stand: Stand) -> None:
    """A job of a higher partition wants all nodes."""
    stand.wait_started()
    options = ("--partition=urgent", "--exclusive", "--nodes=3", "--time=5", "--output=/dev/null")
    stand.cluster.run("sbatch", "--job-name=urgent", *options, "--wrap", "sleep 20")


def end_daemon(stand: Stand) -> None:
    """The daemon of the second node is dead, and Slurm's controller does not know it yet."""
    stand.cluster.kill_node(stand.place.nodes[1])


FAILURES = (
    Failure("rank exits 9"),
    Failure("SIGKILL"),
    Failure("out of memory"),
    Failure("hang", SHORT),
    Failure("node lost", act=lose_node),
    Failure("time limit", SHORT),
    Failure("scancel", act=cancel),
    Failure("preemption", act=preempt),
    Failure("dead slurmd", before=end_daemon),
    Failure("import error"),
)
