"""The fault table on a Slurm cluster: its rows, and those that make no sense there, each with the reason."""

from __future__ import annotations

import dataclasses

from tests.faults.rows import Row
from tests.faults.stage import HOSTS
from tests.faults.table import ROWS

CONTAINERS = "containers are refused under Slurm: they would be outside the job's control group"
NETWORK = "the nodes of this cluster are names of one machine, which share one network; Slurm has no part in it"
WHOLE_NODES = "a run has its nodes alone (--exclusive): another one waits in Slurm's queue, not for slots"
JOB_IS_OVER = "the nodes are another job's when the run has ended: what its controller could not store stays there"

# Row -> why it does not play on Slurm.
NOT_ON_SLURM = {
    "rank OOM-killed by its container's cgroup": CONTAINERS,
    "dockerd stopped on one host": CONTAINERS,
    "dockerd SIGSTOPped on one host, then Ctrl-C": CONTAINERS,
    "dockerd restarted with live-restore": CONTAINERS,
    "container removed from outside": CONTAINERS,
    "image missing on one host": CONTAINERS,
    "partitioned head, its engine SIGSTOPped, one rank ignores SIGTERM": CONTAINERS,
    "network of a host cut for 5 s": NETWORK,
    "network of a host cut for 60 s": NETWORK,
    "partitioned head, its rank 0 alive": NETWORK,
    "SSH cut, data network alive": "no SSH: channels are steps; tests/slurm/test_jobs.py ends the srun of one",
    "clock five minutes off on one host": "munge refuses such a node's messages, so Slurm gives it no job",
    "head host powered off": "the first node has the run's controller, and the job ends with it",
    "two runs at once, one is stopped": WHOLE_NODES,
    "another controller uses the name, slots taken": WHOLE_NODES,
    "another controller uses the name, slots free": WHOLE_NODES,
    "two controllers wait under one name": WHOLE_NODES,
    "the first waiter of the queue SIGKILLed": WHOLE_NODES,
    "controller disk full, then attach": JOB_IS_OVER,
    "quota of the controller used up, then attach": JOB_IS_OVER,
}

# Slurm ends the job's last step and its daemon on each node after the run.
JOB_ENDS_S = 5.0


# Row -> what stays where, if its hosts share no state directory.
REMAINS = {"ranks plant symbolic links": dict.fromkeys(HOSTS, ("files",))}


def on_slurm(row: Row) -> Row:
    """The row with the time that Slurm takes to end the job, and with what stays on nodes of their own."""
    remains = REMAINS.get(row.name, row.expected.remains)
    expected = dataclasses.replace(row.expected, clean_s=row.expected.clean_s + JOB_ENDS_S, remains=remains)
    return dataclasses.replace(row, expected=expected)


SLURM_ROWS: tuple[Row, ...] = tuple(on_slurm(row) for row in ROWS if row.name not in NOT_ON_SLURM)
