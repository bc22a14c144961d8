"""Counters around a measurement between hosts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddp_play.guard import pair_counters

SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm ActiveOpens InErrs OutRsts InCsumErrors
Tcp: 1 10 3 4 17
"""


def test_checksum_errors_of_the_kernel_s_table() -> None:
    assert pair_counters.checksum_errors(SNMP) == 17
    assert pair_counters.checksum_errors("Tcp: InErrs\nTcp: 3\n") == 0, "of a kernel that does not count them"
    assert pair_counters.checksum_errors("") == 0
    assert pair_counters.checksum_errors() >= 0


def test_what_the_kernel_counts_of_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            one.sendall(bytes(300_000))
            left = 300_000
            while left:
                left -= len(other.recv(65536))
            info = pair_counters.TcpInfo(one)
            assert 0 < info.segments < 1000
            assert info.retransmits == 0
            assert 0 <= info.busy_s < 5
            received = pair_counters.TcpInfo(other)
            assert (received.segments, received.out_of_order) == (0, 0)


def test_an_old_kernel_and_no_connection_give_zeros() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        info = pair_counters.TcpInfo(sock)
    assert (info.segments, info.retransmits, info.out_of_order, info.busy_s, info.window_limited_s) == (0, 0, 0, 0, 0)


def test_use_of_the_cpu() -> None:
    idle = pair_counters.CpuUse()
    time.sleep(1.0)
    assert idle.share() < 0.3
    busy, until = pair_counters.CpuUse(), time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    assert busy.share() > idle.share()


def test_a_thread_that_waits_for_a_cpu_is_limited_by_it() -> None:
    """Here it has half of a CPU: what a network carries is not seen by it."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # on the same CPU
    try:
        use, ran, began = pair_counters.CpuUse(), time.thread_time(), time.monotonic()
        while time.monotonic() < began + 1.5:
            pass
        share, ran_share = use.share(), (time.thread_time() - ran) / (time.monotonic() - began)
    finally:
        os.sched_setaffinity(0, allowed)
        spinner.kill()
        spinner.wait()
    assert ran_share < 0.8
    assert share > 0.9


def test_a_kernel_that_does_not_tell_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counters, "SCHEDULED", tmp_path / "absent")
    use, until = pair_counters.CpuUse(), time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    assert 0 < use.share() <= 1


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pair_counters, "NET", tmp_path)
    return tmp_path


def interface(net: Path, name: str, *, speed: str, driver: str = "") -> None:
    path = net / name
    path.mkdir()
    for file, text in (("mtu", "9000"), ("carrier_changes", "3"), ("speed", speed)):
        (path / file).write_text(text + "\n")
    if driver:
        (net / driver).mkdir()
        (path / "device").mkdir()
        (path / "device" / "driver").symlink_to(net / driver)


def test_link_speed_is_believed_of_hardware_only(net: Path) -> None:
    interface(net, "veth0", speed="10000")
    interface(net, "eth0", speed="25000", driver="mlx5_core")
    interface(net, "eth1", speed="100000", driver="virtio_net")
    interface(net, "eth2", speed="-1", driver="e1000e")
    speeds = {name: pair_counters.interface_facts(name)["link_mbps"] for name in ("veth0", "eth0", "eth1", "eth2")}
    assert speeds == {"veth0": None, "eth0": 25000, "eth1": None, "eth2": None}
    assert pair_counters.interface_facts("eth0") == {"mtu": 9000, "carrier_changes": 3, "link_mbps": 25000}


def test_an_interface_that_does_not_exist(net: Path) -> None:
    assert pair_counters.interface_facts("gone") == {"mtu": 0, "carrier_changes": 0, "link_mbps": None}
