"""The table: every fault and what must come of it. Here the faults of ranks, and hangs."""

from __future__ import annotations

import signal

from tests.faults import acts
from tests.faults.expectations import (
    IDLE_S,
    failed,
    hung,
)
from tests.faults.host_table import HOSTS, SHARED, STATE
from tests.faults.neighbour_table import OTHER_RUNS, OTHER_USERS
from tests.faults.rows import Row
from tests.faults.run_table import ATTEMPTS, CONTROLLER, OUTPUT

RANKS = (
    Row(
        "rank exits 3",
        failed(3, "h3", 3, "rank 3 on h3 failed first: exit code 3"),
        victim=("--fault", "exit", "--at-rank", "3"),
        quick=True,
    ),
    Row(
        "rank raises",
        failed(1, "h1", 1, "ValueError: loss is nan", "victim.py"),
        victim=("--fault", "raise", "--at-rank", "1"),
    ),
    Row(
        "rank crashes",
        failed(2, "h2", 128 + signal.SIGSEGV, "SIGSEGV"),
        victim=("--fault", "segv", "--at-rank", "2"),
    ),
    Row("rank SIGKILLed", failed(2, "h2", 128 + signal.SIGKILL, "SIGKILL"), acts.kill_rank, quick=True),
    Row(
        "rank OOM-killed by its container's cgroup",
        failed(2, "h2", 128 + signal.SIGKILL, "out of memory", "ddp_job_memory", "kernel of h2"),
        victim=("--fault", "eat", "--at-rank", "2"),
        job={"memory": "512m"},
        options=("-b",),  # only root may read the kernel log there
        on=("lab",),
        check=acts.is_in_the_kernel_log,
    ),
    Row(
        "rank OOM-killed by its process's cgroup",
        failed(2, "h2", 128 + signal.SIGKILL, "out of memory"),
        acts.confine,
        victim=("--fault", "eat", "--at-signal"),
        after=acts.release,
        on=("lab",),
        containers=False,
        check=acts.says_why_it_died,
    ),
    Row(
        "rank with a slow teardown",
        failed(2, "h2", 1, "rank 2 on h2 failed first"),
        victim=("--fault", "slow", "--at-rank", "2"),
        quick=True,
    ),
)

HANGS = (
    Row(
        "rank SIGSTOPped",
        hung(2, "h2", "rank 2 is stopped by a signal", "wait in"),
        acts.stop_rank,
        job={"idle_timeout": IDLE_S},
        check=acts.has_evidence,
    ),
    Row(
        "rank SIGSTOPped under torchrun",
        hung(2, "h2", "rank 2 is stopped by a signal", "wait in"),
        acts.stop_rank,
        job={"idle_timeout": IDLE_S, "launcher": "torchrun"},
        on=("lab",),
        check=acts.has_evidence,
    ),
    Row(
        "endless loop outside collectives",
        hung(3, "h3", "ranks 0, 1, 2 wait in", "rank 3 is in load_batch at victim.py"),
        victim=("--fault", "loop", "--at-rank", "3"),
        job={"idle_timeout": IDLE_S},
        quick=True,
        check=acts.has_evidence,
    ),
    Row(
        "rank skips a collective",
        hung(1, "h1", "ranks 0, 2, 3 wait in", "rank 1 waits in barrier at victim.py"),
        victim=("--fault", "skip", "--at-rank", "1"),
        job={"idle_timeout": IDLE_S},
        check=acts.has_evidence,
    ),
)

ROWS: tuple[Row, ...] = (
    *RANKS,
    *HANGS,
    *HOSTS,
    *SHARED,
    *STATE,
    *ATTEMPTS,
    *OTHER_RUNS,
    *OTHER_USERS,
    *CONTROLLER,
    *OUTPUT,
)
