"""The kernel log counts for a rank by its group or its pid, and by nothing less."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import kernel_log, rank_failure

MINE, OTHER = "a" * 64, "b" * 64
# As Linux 6.18 printed it (cgroup v1), and as 4.18 and the NVIDIA driver do.
EVENT = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/{group},"
    "task_memcg=/docker/{group},task=python3,pid={pid},uid=1000"
)
KILLED = "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:613748kB, anon-rss:250124kB, UID:1000"
OLDER = "Task in /docker/{group} killed as a result of limit of /docker/{group}"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
XID_NOBODY = "NVRM: Xid (PCI:0000:3b:00): 48, An uncorrectable double bit error (DBE) has been detected on GPU."
NOISE = "neighbour: arp_cache: neighbor table overflow!"


def said(lines: list[str], pids: list[int], group: str, gpus: list[str] | None = None) -> list[str]:
    return kernel_log.lines_about(lines, pids=pids, group=group, gpus=gpus or [])


def kill(group: str, pid: int) -> list[str]:
    return [EVENT.format(group=group, pid=pid), KILLED.format(pid=pid)]


@pytest.mark.parametrize(
    ("lines", "pids", "group", "expected"),
    [
        ([NOISE], [4711], f"/docker/{MINE}", []),
        (kill(MINE, 99), [], f"/docker/{MINE}", kill(MINE, 99)),
        (kill(OTHER, 99), [], f"/docker/{MINE}", []),
        (kill(OTHER, 4711), [4711], f"/docker/{MINE}", kill(OTHER, 4711)),
        (kill(f"x/{MINE}", 99), [], f"/docker/{MINE}", []),
        (kill(MINE, 99), [4711], "", []),
        (kill(MINE, 99), [4711], "/", []),
        ([*kill(OTHER, 98), NOISE, *kill(MINE, 99)], [], f"/docker/{MINE}", kill(MINE, 99)),
        ([OLDER.format(group=MINE)], [], f"/docker/{MINE}", [OLDER.format(group=MINE)]),
        ([XID], [4711], "", [XID]),
        ([XID], [4712], "", []),
        (
            ["Out of memory: Killed process 4711 (python3)"],
            [4711],
            "",
            ["Out of memory: Killed process 4711 (python3)"],
        ),
        (["Out of memory: Killed process 47111 (python3)"], [4711], "", []),
    ],
)
def test_lines_about(lines: list[str], pids: list[int], group: str, expected: list[str]) -> None:
    assert said(lines, pids, group) == expected


def test_a_nested_group_ends_with_ours() -> None:
    """A host that is a container sees its groups from its own root, the kernel from the first."""
    line = EVENT.format(group=f"{OTHER}/docker/{MINE}", pid=99)
    assert said([line], [], f"/docker/{MINE}") == [line]


def test_an_xid_without_a_pid_is_of_the_gpu() -> None:
    assert said([XID_NOBODY], [1], "", ["0000:3b:00.0"]) == [XID_NOBODY]
    assert said([XID_NOBODY], [1], "", ["0000:5e:00.0"]) == []
    assert said([XID], [1], "", ["0000:3b:00.0"]) == []  # it names somebody else


def test_what_counts_as_memory() -> None:
    assert rank_failure.is_oom(kill(MINE, 1))
    assert not rank_failure.is_oom([XID, NOISE])


@pytest.mark.parametrize(
    ("name", "text", "kills"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n", 2),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0),
    ],
)
def test_oom_kills_are_counted_by_the_group(tmp_path: Path, name: str, text: str, kills: int) -> None:
    (tmp_path / name).write_text(text)
    assert kernel_log.oom_kills(str(tmp_path)) == kills
    assert kernel_log.oom_kills(str(tmp_path / "gone")) == 0


def test_a_witness_of_a_rank_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 4\n")
    monkeypatch.setattr(kernel_log, "memory_group", lambda _pid: (f"/docker/{MINE}", str(tmp_path)))
    witness = kernel_log.Witness(99)
    row: dict[str, Any] = {"oom": False, "signal": 9}
    kernel_log.explain(witness, [NOISE], row, [])
    assert row == {"oom": False, "signal": 9, "kernel": []}
    counter.write_text("oom_kill 5\n")
    kernel_log.explain(witness, [NOISE], row, [])
    assert row["oom"] is True
    assert row["kernel"] == [
        f"OOM kill in control group /docker/{MINE} (counted by the group; the kernel log has no line about it)"
    ]
    kernel_log.explain(witness, [], row, [], problem="the kernel log cannot be read by this user")
    assert row["kernel"][0].endswith("(counted by the group; the kernel log cannot be read by this user)")
    worker: dict[str, Any] = {"oom": False, "signal": None}  # a child of it was killed, and it gave up
    kernel_log.explain(witness, kill(MINE, 7), worker, [])
    assert worker["oom"] is False
    assert worker["kernel"] == kill(MINE, 7)


def test_our_own_group_is_found() -> None:
    group, directory = kernel_log.memory_group(os.getpid())
    assert group.startswith("/")
    assert directory.endswith(group)
    assert kernel_log.memory_group(2**22 + 1) == ("", "")


def test_a_log_that_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_log, "KMSG", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    log = kernel_log.KernelLog()
    assert log.lines() == []
    assert "cannot be read" in log.problem


def test_without_the_device_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_log, "KMSG", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    lines = [f"<6>[{now - 60:14.6f}] before", f"<3>[{now + 1:14.6f}] oom-kill: [x] it", "<6> continued"]
    (tmp_path / "dmesg").write_text("#!/bin/sh\ncat <<'end'\n" + "\n".join(lines) + "\nend\n")
    (tmp_path / "dmesg").chmod(0o755)
    log = kernel_log.KernelLog()
    assert (log.lines(), log.problem) == (["oom-kill: [x] it"], "")


def test_lines_of_a_program_that_is_missing_fails_or_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dmesg"
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert kernel_log.output_lines("no-such-tool-anywhere") == []
    program.write_text("#!/bin/sh\necho said\n")
    program.chmod(0o755)
    assert kernel_log.output_lines("dmesg") == ["said"]
    program.write_text("#!/bin/sh\necho said\nexit 3\n")
    assert kernel_log.output_lines("dmesg") == []


def test_lines_since_the_start_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """/dev/kmsg gives one record a read; a file stands for it, its whole rest being one."""
    stand_in = tmp_path / "kmsg"
    stand_in.write_text("6,1,1,-;before\n")
    monkeypatch.setattr(kernel_log, "KMSG", str(stand_in))
    log = kernel_log.KernelLog()
    assert log.lines() == []
    with stand_in.open("a") as handle:
        handle.write("6,2,2,-;after; and more\n SUBSYSTEM=x\n")
    assert log.lines() == ["after; and more"]
    with stand_in.open("a") as handle:
        handle.write("6,3,3,-;later\n")
    assert log.lines() == ["after; and more", "later"], "a rank may end long after a peer that had the same cause"
