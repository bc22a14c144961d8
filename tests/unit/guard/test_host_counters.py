"""Counters of a host from /proc, of recorded texts and of this machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ddp_play.guard.host_counters import (
    HostCounters,
    OpenFiles,
    busy_seconds,
    disk_bytes,
    disks,
    has_devices,
    memory_bytes,
    nic_bytes,
)
from ddp_play.guard.processes import TICKS_PER_S

STAT = b"cpu  100 20 30 9000 400 5 6 70 80 9\ncpu0 1 2 3\n"
MEMINFO = b"MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    400 kB\nBuffers: 1 kB\n"
NET = b"""Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 500 5 0 0 0 0 0 0 500 5 0 0 0 0 0 0
  eth0: 7000000 100 0 0 0 0 0 0 8000000 90 0 0 0 0 0 0
veth12: 99 1 0 0 0 0 0 0 99 1 0 0 0 0 0 0
  idle: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
DISKS = b"""   8       0 sda 10 0 2000 1 20 0 4000 1 0 1 2 0 0 0 0
   8       1 sda1 10 0 2000 1 20 0 4000 1 0 1 2 0 0 0 0
 259       0 nvme0n1 1 0 8 1 1 0 16 1 0 1 2
"""


def test_cpu_time_without_waiting_and_without_a_guest_counted_twice() -> None:
    assert busy_seconds(STAT) == (100 + 20 + 30 + 5 + 6) / TICKS_PER_S


def test_memory_in_use_is_what_is_not_available() -> None:
    assert memory_bytes(MEMINFO) == (1_024_000, 409_600)
    with pytest.raises(KeyError):
        memory_bytes(b"MemTotal:  1000 kB\n")


def test_interfaces_that_carry_something_of_their_own() -> None:
    assert nic_bytes(NET) == {"lo": (500, 500), "eth0": (7_000_000, 8_000_000)}


def test_disks_without_their_partitions() -> None:
    assert disk_bytes(DISKS, frozenset({b"sda", b"nvme0n1"})) == (2008 * 512, 4016 * 512)


def test_disks_that_the_kernel_makes_of_others_are_none(tmp_path: Path) -> None:
    for target, name in (("devices/pci/sda", "sda"), ("devices/virtual/block/dm-0", "dm-0")):
        (tmp_path / target).mkdir(parents=True)
        (tmp_path / "sys" / "block").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / "block" / name).symlink_to(tmp_path / target)
    assert disks(str(tmp_path)) == {b"sda"}
    assert disks(str(tmp_path / "nothing")) == frozenset()


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_bytes(STAT)
    (tmp_path / "proc" / "meminfo").write_bytes(b"MemTotal: many kB\n")
    assert HostCounters(str(tmp_path)).read() == {"cpu": busy_seconds(STAT)}


def test_this_machine() -> None:
    counters = HostCounters()
    before = counters.read()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = counters.read()
    assert 0.05 <= after["cpu"] - before["cpu"] < 60
    assert 0 < after["memory"] < after["memory_total"]
    assert isinstance(has_devices(), bool)


def test_files_stay_open_and_are_forgotten_when_they_fail(tmp_path: Path) -> None:
    path, files = tmp_path / "counter", OpenFiles()
    path.write_text("1")
    assert files.read(str(path)) == b"1"
    path.write_text("2")
    num_open = len(list(Path("/proc/self/fd").iterdir()))
    assert files.read(str(path)) == b"2"
    assert len(list(Path("/proc/self/fd").iterdir())) == num_open
    with pytest.raises(OSError, match="No such file"):
        files.read(str(tmp_path / "gone"))
    files.close(str(path))
    assert len(list(Path("/proc/self/fd").iterdir())) == num_open - 1
