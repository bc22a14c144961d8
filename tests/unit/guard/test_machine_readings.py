"""Readings of a machine from files of the kernel, below another root."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ddp_play.checks.machine_checks import WATCHED_S
from ddp_play.guard import machine_readings as module
from ddp_play.guard.bounded_reading import NotReadableHere

CPUINFO = "\n\n".join(
    f"processor : {n}\nmodel name : EPYC 9\nphysical id : {n // 4}\ncore id : {n % 2}" for n in range(8)
)


def write(root: Path, path: str, content: str) -> str:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)
    return str(root)


def test_cpus(tmp_path: Path) -> None:
    found = module.cpu(write(tmp_path, "proc/cpuinfo", CPUINFO + "\n"))
    assert {name: found[name] for name in ("model", "sockets", "cores", "threads")} == {
        "model": "EPYC 9", "sockets": 2, "cores": 4, "threads": 8,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "files", "limit", "cpus", "pids"),
    [
        ("0::/\n", {}, None, None, None),
        (
            "0::/user.slice/a\n",
            {"user.slice/memory.max": "314572800\n", "user.slice/a/memory.max": "max",
             "user.slice/cpu.max": "60000 100000", "user.slice/a/pids.max": "60", "user.slice/a/pids.current": "20"},
            300, 0.6, {"max": 60, "now": 20},
        ),
        ("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}, None, None, None),
        (
            "4:memory:/\n3:cpu,cpuacct:/\n2:pids:/x\n",
            {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu,cpuacct/cpu.cfs_quota_us": "50000",
             "cpu,cpuacct/cpu.cfs_period_us": "100000", "pids/x/pids.max": "max"},
            None, 0.5, None,
        ),
    ],
)  # fmt: skip
def test_limits_of_control_groups(
    tmp_path: Path, groups: str, files: dict[str, str], limit: int | None, cpus: float | None, pids: object
) -> None:
    root = write(tmp_path, "proc/self/cgroup", groups)
    write(tmp_path, "proc/meminfo", "MemTotal: 2048000 kB\nMemFree: 1 kB\nMemAvailable: 1024000 kB\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    for path, content in files.items():
        write(tmp_path, f"sys/fs/cgroup/{path}", content)
    assert module.memory(root) == {"total_mib": 2000, "available_mib": 1000, "limit_mib": limit}
    assert module.cpu_quota(root)["cpus"] == cpus
    assert module.limits(root)["pids"] == pids


def test_how_often_a_quota_held_processes_back(tmp_path: Path) -> None:
    root = write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/cpu.stat", "nr_periods 9\nnr_throttled 7\n")
    assert module.cpu_quota(root) == {"cpus": None, "times_throttled": 7}


def test_governor_and_clock_source(tmp_path: Path) -> None:
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    root = write(tmp_path, "sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
    for cpu, limit in ((0, "3500000"), (1, "2000000")):
        write(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq", f"{limit}\n")
    assert module.governor(root) == {"governors": ["performance"], "clocksource": "tsc", "max_mhz": 2000}


@pytest.mark.parametrize(("state", "found"), [("S", 0), ("D", 1), ("Z", 1)])
def test_processes_that_do_not_move(tmp_path: Path, state: str, found: int) -> None:
    root = write(tmp_path, "proc/uptime", "1000.0 1.0\n")
    write(tmp_path, "proc/7/stat", f"7 (a b) {state} 6 " + "0 " * 17 + "50000 0")
    write(tmp_path, "proc/7/status", "voluntary_ctxt_switches:\t3\n")
    rows = module.processes(root, pause_s=0.0)
    assert len(rows) == found
    assert [(row["pid"], row["parent"], row["age_s"], row["name"]) for row in rows] == [(7, 6, 500, "a b")] * found


@pytest.mark.parametrize(
    ("path", "content", "found"),
    [
        ("uptime", "1002.0 1.0", 1),
        ("7/status", "voluntary_ctxt_switches:\t4", 0),
        ("7/stat", "7 (a) D 6 " + "0 " * 17 + "60000 0", 0),
    ],
)
def test_a_process_that_moves_or_is_another_one_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, content: str, found: int
) -> None:
    root = write(tmp_path, "proc/uptime", "1000.0 1.0\n")
    write(tmp_path, "proc/7/stat", "7 (a) D 6 " + "0 " * 17 + "50000 0")
    write(tmp_path, "proc/7/status", "voluntary_ctxt_switches:\t3\n")
    monkeypatch.setattr(time, "sleep", lambda _s: write(tmp_path, f"proc/{path}", content))
    assert len(module.processes(root)) == found


@pytest.mark.parametrize(("num_looks", "found"), [(2, 0), (4, 0), (9, 1)])
def test_a_process_that_a_busy_host_reaps_a_little_later_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_looks: int, found: int
) -> None:
    """`sshd` of a session that ended while 30 processes waited for two processors was not reaped for two seconds."""
    root = write(tmp_path, "proc/uptime", "1000.0 1.0\n")
    write(tmp_path, "proc/7/stat", "7 (sshd) Z 6 " + "0 " * 17 + "50000 0")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == num_looks:
            (tmp_path / "proc/7/stat").unlink()

    monkeypatch.setattr(time, "sleep", sleep)
    assert len(module.processes(root)) == found
    assert sum(slept) <= WATCHED_S


def test_a_young_process_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, "proc/uptime", "505.0 1.0\n")
    write(tmp_path, "proc/7/stat", "7 (sshd) Z 6 " + "0 " * 17 + "50000 0")
    monkeypatch.setattr(time, "sleep", lambda _s: pytest.fail("it costs no time"))
    assert module.processes(root) == []


def test_software_names_what_is_there(tmp_path: Path) -> None:
    write(tmp_path, "etc/os-release", 'NAME=x\nPRETTY_NAME="Debian 12"\n')
    write(tmp_path, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Kernel Module  550.54.15  Tue\nGCC\n")
    root = write(tmp_path, "sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n")
    found = module.software(root)
    assert (found["os"], found["nvidia driver"], found["rdma firmware"]) == ("Debian 12", "550.54.15", "28.39.1002")
    assert "ofed" not in found


def test_packages_that_wait_for_a_reboot(tmp_path: Path) -> None:
    assert module.reboot_pending(str(tmp_path)) == []
    root = write(tmp_path, "run/reboot-required", "")
    assert module.reboot_pending(root) == ["unknown"]
    write(tmp_path, "run/reboot-required.pkgs", "linux-image\n")
    assert module.reboot_pending(root) == ["linux-image"]


def test_memory_errors_are_counted_where_the_kernel_does(tmp_path: Path) -> None:
    with pytest.raises(NotReadableHere):
        module.memory_errors(str(tmp_path))
    write(tmp_path, "sys/devices/system/edac/mc/mc0/ue_count", "2\n")
    root = write(tmp_path, "sys/devices/system/edac/mc/mc1/ue_count", "1\n")
    assert module.memory_errors(root) == {"ue": 3, "ce": 0}


def test_settings_have_single_spaces(tmp_path: Path) -> None:
    root = write(tmp_path, "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t9\n")
    assert module.settings(root) == {"net.ipv4.tcp_rmem": "4096 131072 9"}
