"""Faults of ranks, of runs beside one another and of output, and what undoes them: each takes the scene of its row."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path

from tests.faults.controller_acts import wait_phase
from tests.faults.scene import Scene
from tests.faults.stage import Here
from tests.waiting import wait_until

# The guard looks at a rank's control group once a second.
WITNESS_S = 3
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


# -- ranks -------------------------------------------------------------------------------------------
def kill_rank(scene: Scene) -> None:
    """SIGKILL from outside, as by an administrator or the kernel."""
    scene.signal_rank(2, "KILL")


def stop_rank(scene: Scene) -> None:
    """SIGSTOP from outside: alive, and doing nothing."""
    scene.signal_rank(2, "STOP")


def confine(scene: Scene) -> None:
    """A memory limit around rank 2. It begins to eat when the guard has looked at its new group."""
    host, pid = scene.rank_process(2)
    group = f"ddp-play-fault-{scene.run}"
    scene.notes["group"] = group
    scene.stage.on(
        host,
        f"""
        if test -d /sys/fs/cgroup/memory; then base=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
        else base=/sys/fs/cgroup limit=memory.max; fi
        mkdir $base/{group} && echo 256M >$base/{group}/$limit && echo {pid} >$base/{group}/cgroup.procs &&
        sleep {WITNESS_S} && kill -USR1 {pid}
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
    """The kernel's own words, and the flag; the kernel limits how often it logs, then there is the group's count."""
    document = scene.document()
    assert document["ranks"][2]["oom"] is True
    last = document["verdict"]["kernel"][-1]
    assert "memory" in last or last.startswith("OOM kill in control group"), document["verdict"]


def is_in_the_kernel_log(scene: Scene) -> None:
    """The lines are those of this very container: all containers here share one kernel log."""
    says_why_it_died(scene)
    assert any("oom-kill:" in line and "/docker/" in line for line in scene.document()["verdict"]["kernel"])


def remove_container(scene: Scene) -> None:
    """Somebody removes the container of rank 2 by hand."""
    scene.mark()
    scene.stage.on("h2", f"docker rm -f ddp-{scene.run}.{scene.token}-a1-r2")


# -- attempts and runs beside one another ------------------------------------------------------------
def begun_again(scene: Scene) -> bool:
    """Does the second attempt train?"""
    return scene.first != scene.bundle and scene.step() >= 1


def kill_guard(scene: Scene) -> None:
    """The guard of h2 is gone, and nobody there can tell us anything."""
    pid = scene.state("h2")["guard_pid"]
    scene.mark()
    scene.stage.on("h2", f"kill -KILL {pid}")


def kill_rank_twice(scene: Scene) -> None:
    """SIGKILL for rank 2, and again when the gang trains again."""
    scene.signal_rank(2, "KILL")
    wait_until(lambda: begun_again(scene), timeout_s=120, what="the second attempt trains")
    scene.signal_rank(2, "KILL", attempt=2)


def share_directory(scene: Scene) -> None:
    """All hosts share a directory."""
    where = scene.root / "shared"
    where.mkdir()
    assert isinstance(scene.stage, Here)
    scene.stage.write_inventory(ddp_shared_dir=str(where))


def crash_with_a_torn_checkpoint(scene: Scene) -> None:
    """A rank is killed, and the newest checkpoint is as a crash in the middle of a write leaves it."""

    def checkpoints() -> list[Path]:
        found = (scene.root / "shared").glob(f".ddp-play/{scene.run}.*/src/checkpoints/step-*/weights.pt")
        return sorted(found, key=lambda path: path.stat().st_mtime)

    wait_until(lambda: len(checkpoints()) > 1, timeout_s=120, what="two checkpoints")
    scene.signal_rank(2, "KILL")
    torn = checkpoints()[-1]
    torn.write_bytes(torn.read_bytes()[:1000])
    scene.notes["torn"] = int(torn.parent.name.rpartition("-")[2])


def resumed_from_the_one_before(scene: Scene) -> None:
    """Not from the torn one, and not from the beginning."""
    found = re.search(rb"resuming after step (\d+)", scene.log(0))
    assert found, scene.log(0)[-2000:]
    assert 0 < int(found[1]) < scene.notes["torn"], (found[1], scene.notes["torn"])


def stop_another(scene: Scene) -> None:
    """A second run on the same hosts, and `ddp-play stop` for it; the first goes on."""
    other = f"{scene.run}-b"
    words = ("run", str(scene.root / "train.yml"), "-i", str(scene.stage.inventory), "--name", other, *scene.options)
    log = scene.stage.home / "runs" / other / "logs" / "rank-0.log"
    with (scene.root / "other").open("ab") as screen:
        child = scene.popen(words, screen)
        try:
            wait_until(lambda: log.exists() and b" step 3 " in log.read_bytes(), timeout_s=120, what="the other trains")
            assert scene.popen(("stop", other), screen).wait(60) == 0, (scene.root / "other").read_text()
            assert child.wait(60) == 130
        finally:
            child.kill()
    document = json.loads((scene.stage.home / "runs" / other / "run.json").read_text())
    assert document["status"] == "stopped", document
    assert scene.child is not None
    assert scene.child.poll() is None, "the first goes on"
    before = scene.step()
    wait_until(lambda: scene.step() > before, timeout_s=20, what="the first goes on")


# -- output ------------------------------------------------------------------------------------------
def watch_the_controller(scene: Scene) -> None:
    """What the controller uses while 64 ranks print: CPUs and memory."""
    wait_phase(scene, "running")
    time.sleep(3)
    pids = scene.controller_pids()
    before, began = _cpu_s(pids), time.monotonic()
    most = 0
    while time.monotonic() - began < 5:
        most = max(most, sum(_rss_mib(pid) for pid in pids))
        time.sleep(0.5)
    scene.notes["cpus"] = (_cpu_s(pids) - before) / (time.monotonic() - began)
    scene.notes["rss_mib"] = most


def _cpu_s(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / CLOCK_TICKS


def _rss_mib(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20
    return 0


def used_little_and_lost_nothing(scene: Scene) -> None:
    """Less than a core and 300 MB, and every line is there."""
    cpus, rss = scene.notes["cpus"], scene.notes["rss_mib"]
    scene.notes["remark"] = f"controller: {cpus:.2f} CPUs, {rss} MiB"
    assert cpus < 1.0, scene.notes
    assert rss < 300, scene.notes
    for rank in range(64):
        lines = scene.log(rank).splitlines()
        assert len(lines) == 10_000, (rank, len(lines))
        assert [int(line.split()[1]) for line in lines] == list(range(10_000))
