"""The table: every row, what to expect of it and what to do to bring it about."""

from __future__ import annotations

import signal

from tests.faults.rows import Expected, Row
from tests.faults.scene import Scene


def kill_rank(scene: Scene) -> None:
    """SIGKILL from outside, as by an administrator or the kernel."""
    scene.signal_rank(2, "KILL")


def stop_rank(scene: Scene) -> None:
    """SIGSTOP from outside: alive, and doing nothing."""
    scene.signal_rank(2, "STOP")


def confine(scene: Scene) -> None:
    """A memory limit around rank 2, a little above what it uses, before it begins to eat."""
    host, pid = scene.rank_process(2)
    group = f"ddp-play-fault-{scene.run}"
    scene.notes["group"] = group
    scene.stage.on(
        host,
        f"""
        if test -d /sys/fs/cgroup/memory; then base=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
        else base=/sys/fs/cgroup limit=memory.max; fi
        mkdir $base/{group} && echo 256M >$base/{group}/$limit && echo {pid} >$base/{group}/cgroup.procs
        """,
    )


def release(scene: Scene) -> None:
    """Take the limit's group away again."""
    if group := scene.notes.get("group"):
        scene.stage.on("h2", f"rmdir /sys/fs/cgroup/memory/{group} /sys/fs/cgroup/{group} 2>/dev/null; true")


def has_evidence(scene: Scene) -> None:
    """Of every rank, on every host: what /proc had, and its stack."""
    for rank in range(4):
        for kind in ("proc", "stack"):
            path = scene.bundle / "evidence" / f"rank-{rank}.{kind}"
            assert path.is_file(), path
    assert "== sockets\n" in (scene.bundle / "evidence" / "rank-0.proc").read_text()


def says_why_it_died(scene: Scene) -> None:
    """The kernel's own words, and the flag."""
    document = scene.document()
    assert document["ranks"][2]["oom"] is True
    assert document["verdict"]["kernel"], "no line of the kernel log"


IDLE_S = 20


def hung(rank: int, host: str, *says: str) -> Expected:
    """The watchdog ends the run, and knows who held it up."""
    return Expected(True, "idle", 124, rank=rank, host=host, says=says, stopped_s=IDLE_S + 10)


def failed(rank: int, host: str, exit_code: int, *says: str, **more: object) -> Expected:
    """The run ends because of this rank."""
    return Expected(True, "rank_failed", exit_code, rank=rank, host=host, says=says, **more)  # type: ignore[arg-type]


ROWS: tuple[Row, ...] = (
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
        quick=True,
    ),
    Row(
        "rank crashes",
        failed(2, "h2", 128 + signal.SIGSEGV, "SIGSEGV"),
        victim=("--fault", "segv", "--at-rank", "2"),
    ),
    Row(
        "rank SIGKILLed",
        failed(2, "h2", 128 + signal.SIGKILL, "SIGKILL"),
        fault=kill_rank,
        quick=True,
    ),
    Row(
        "rank OOM-killed by its container's cgroup",
        failed(2, "h2", 128 + signal.SIGKILL, "out of memory", "ddp_job_memory"),
        victim=("--fault", "eat", "--at-rank", "2"),
        job={"memory": "512m"},
        on=("lab",),
        check=says_why_it_died,
    ),
    Row(
        "rank OOM-killed by its process's cgroup",
        failed(2, "h2", 128 + signal.SIGKILL, "out of memory"),
        victim=("--fault", "eat", "--at-rank", "2", "--at-step", "60"),
        fault=confine,
        after=release,
        on=("lab",),
        containers=False,
        check=says_why_it_died,
    ),
    Row(
        "rank with a slow teardown",
        failed(2, "h2", 1, "rank 2 on h2 failed first"),
        victim=("--fault", "slow", "--at-rank", "2"),
        quick=True,
    ),
    Row(
        "rank SIGSTOPped",
        hung(2, "h2", "rank 2 is stopped by a signal", "wait in"),
        fault=stop_rank,
        job={"idle_timeout": IDLE_S},
        check=has_evidence,
    ),
    Row(
        "endless loop outside collectives",
        hung(3, "h3", "ranks 0, 1, 2 wait in", "rank 3 is in load_batch at victim.py"),
        victim=("--fault", "loop", "--at-rank", "3"),
        job={"idle_timeout": IDLE_S},
        quick=True,
        check=has_evidence,
    ),
    Row(
        "rank skips a collective",
        hung(1, "h1", "ranks 0, 2, 3 wait in", "rank 1 waits in barrier at victim.py"),
        victim=("--fault", "skip", "--at-rank", "1"),
        job={"idle_timeout": IDLE_S},
        check=has_evidence,
    ),
)
