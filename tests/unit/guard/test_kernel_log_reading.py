"""Lines of the kernel log that tell of trouble, and hosts that cannot show it."""

from __future__ import annotations

import time

import pytest

from ddp_play.guard import kernel_log, kernel_log_reading
from ddp_play.guard.bounded_reading import NotReadableHere

NOW = time.clock_gettime(time.CLOCK_MONOTONIC)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus", "gpu"),
        ("NVRM: Xid (PCI:0000:00:06): 43, pid=1062, name=python3, channel 0x0000000a", "gpu_program"),
        ("NVRM: Xid (PCI:0000:00:06): 31, pid=1131, name=python3, channel 0x0000000a, intr 00000000.", "gpu_program"),
        ("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE (double bit error) ECC Error", "gpu"),
        ("NVRM: Xid (PCI:0000:3b:00): 131, pid=1", "gpu"),
        ("blk_update_request: I/O error, dev sda, sector 1", "disk"),
        ("EXT4-fs error (device sda1): ext4_find_entry", "disk"),
        ("nfs: server nfs1 not responding, still trying", "nfs"),
        ("mce: [Hardware Error]: Machine check events logged", "machine"),
        ("INFO: task dd:7 blocked for more than 120 seconds.", "machine"),
        ("NETDEV WATCHDOG: eth0 (ixgbe): transmit queue 3 timed out", "network"),
        ("Out of memory: Killed process 77 (python) total-vm:1kB", "memory"),
        ("usb 1-1: new high-speed USB device", ""),
        ("EXT4-fs (sda1): mounted filesystem", ""),
    ],
)
def test_kinds_of_lines(line: str, kind: str) -> None:
    assert list(kernel_log_reading.kinds_of([line])) == ([kind] if kind else [])


def test_lines_are_counted_and_the_last_are_kept() -> None:
    lines = [f"NVRM: Xid (PCI:0000:3b:00): {n}" for n in range(9)]
    assert kernel_log_reading.kinds_of(lines)["gpu"] == {"lines": 9, "last": lines[-3:]}


def test_a_container_tells_nothing_about_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "in_first_pid_namespace", lambda: False)
    with pytest.raises(NotReadableHere, match="container"):
        kernel_log_reading.read()


def test_dmesg_of_the_last_day_else_the_journal_else_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "in_first_pid_namespace", lambda: True)
    said = {"dmesg": [f"<3>[{NOW:.6f}] Buffer I/O error"], "journalctl": ["I/O error of it"]}
    monkeypatch.setattr(kernel_log, "output_lines", lambda name, *_words: said[name])
    assert kernel_log_reading.read()["disk"]["last"] == ["Buffer I/O error"]
    said["dmesg"] = []
    assert kernel_log_reading.read()["disk"]["last"] == ["I/O error of it"]
    said["journalctl"] = []
    with pytest.raises(NotReadableHere, match="may not read"):
        kernel_log_reading.read()
