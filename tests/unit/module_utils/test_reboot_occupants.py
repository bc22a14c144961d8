"""Who would be disturbed by a reboot: users of devices, package managers, steps of Slurm, NFS clients."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.ddp.play.plugins.module_utils import occupants, reboot_occupants

PROC = Path("/proc")


def process(procfs: Path, pid: int, name: str, *, device: str = "/dev/null", cmdline: bytes = b"") -> None:
    """Files of a process below `procfs`."""
    (procfs / f"{pid}/fd").mkdir(parents=True)
    (procfs / f"{pid}/comm").write_text(f"{name}\n", encoding="ascii")
    (procfs / f"{pid}/cmdline").write_bytes(cmdline)
    (procfs / f"{pid}/fd/3").symlink_to(device)


@pytest.mark.parametrize(
    ("name", "device", "found"),
    [
        ("python3", "/dev/nvidia0", [{"pid": 42, "name": "python3"}]),
        ("python3", "/dev/null", []),
        ("nvidia-persiste", "/dev/nvidia0", []),
        ("nvidia-persiste", "/dev/nvidiactl", []),
        ("dcgm-exporter", "/dev/nvidia0", [{"pid": 42, "name": "dcgm-exporter"}]),  # a name proves nothing
    ],
)
def test_processes_that_hold_a_gpu(tmp_path: Path, name: str, device: str, found: list[dict[str, object]]) -> None:
    process(tmp_path, 42, name, device=device)
    (tmp_path / "43").mkdir()  # a process that ended meanwhile
    assert reboot_occupants.device_users(tmp_path, reboot_occupants.GPU) == found


OURS, THEIRS = "a1" * 32, "b2" * 32


@pytest.mark.parametrize(
    ("group", "answer", "found"),
    [
        (f"0::/system.slice/docker-{OURS}.scope", (0, f"{OURS}\n", ""), []),
        (f"5:devices:/docker/{OURS}\n1:name=systemd:/docker/{OURS}", (0, f"{OURS}\n", ""), []),
        (f"0::/system.slice/docker-{THEIRS}.scope", (0, f"{OURS}\n", ""), [42]),
        ("0::/user.slice/user-1000.slice", (0, f"{OURS}\n", ""), [42]),
        (f"0::/system.slice/docker-{OURS}.scope", (0, "", ""), [42]),
        (f"0::/system.slice/docker-{OURS}.scope", (124, f"{OURS}\n", "no answer"), [42]),
    ],
)
def test_our_exporter_is_known_by_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, answer: occupants.Answer, found: list[int]
) -> None:
    """Role monitoring's own kept every later driver away; a process of the same name elsewhere counts."""
    process(tmp_path, 42, "dcgm-exporter", device="/dev/nvidia0")
    (tmp_path / "42/cgroup").write_text(group, encoding="ascii")
    monkeypatch.setattr(occupants, "ask", lambda argv, _timeout_s: answer if argv == occupants.OURS else (127, "", ""))
    users = reboot_occupants.disturbed_users(tmp_path, reboot_occupants.GPU, 1.0)
    assert [row["pid"] for row in users] == found


def test_an_engine_is_asked_only_if_somebody_holds_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(tmp_path, 42, "python3")
    monkeypatch.setattr(occupants, "ask", lambda argv, _timeout_s: pytest.fail(f"asked {argv}"))
    assert reboot_occupants.disturbed_users(tmp_path, reboot_occupants.GPU, 1.0) == []


def test_each_user_is_named_with_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(tmp_path, 7, "python3", device="/dev/nvidia1")
    process(tmp_path, 8, "ib_write_bw", device="/dev/infiniband/uverbs0")
    process(tmp_path, 9, "slurmstepd", cmdline=b"slurmstepd: [812.batch]\0")
    process(tmp_path, 10, "slurmstepd", cmdline=b"/usr/sbin/slurmstepd\0infinity\0")
    monkeypatch.setattr(reboot_occupants, "PACKAGE_LOCKS", ())
    monkeypatch.setattr(occupants, "ask", lambda _argv, _timeout_s: (3, "", ""))
    assert reboot_occupants.reasons(tmp_path, 1.0) == [
        "processes use a GPU: python3 (pid 7)",
        "processes use an RDMA device: ib_write_bw (pid 8)",
        "steps of Slurm jobs are running: 812.batch",
    ]


def test_virtual_machines_by_kvm_and_by_the_emulators_name(tmp_path: Path) -> None:
    process(tmp_path, 20, "cloud-hyperviso", device="anon_inode:kvm-vm")
    process(tmp_path, 21, "qemu-system-x86")
    process(tmp_path, 22, "virtqemud", device="anon_inode:kvm-vcpu:0")
    found = ["cloud-hyperviso (pid 20)", "qemu-system-x86 (pid 21)"]
    assert reboot_occupants.virtual_machines(tmp_path) == found
    assert reboot_occupants.reasons(tmp_path, 1.0)[0] == f"virtual machines are running: {', '.join(found)}"


def test_a_real_process_with_a_device_open_is_found(tmp_path: Path) -> None:
    path = tmp_path / "nvidia0"
    path.touch()
    with path.open():
        found = reboot_occupants.device_users(PROC, re.compile(re.escape(str(path))))
    assert [row["pid"] for row in found] == [os.getpid()]


def test_a_package_manager_at_work_is_found_and_not_disturbed(tmp_path: Path) -> None:
    """The look takes no lock itself, not for a moment."""
    path = tmp_path / "lock-frontend"
    path.touch()
    assert reboot_occupants.lock_holder(str(path)) == 0
    assert reboot_occupants.lock_holder(str(tmp_path / "none")) == 0
    code = (
        f"import fcntl, time; file = open({str(path)!r}, 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
        " print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert reboot_occupants.lock_holder(str(path)) == child.pid
    finally:
        child.kill()
        child.communicate()
    deadline = time.monotonic() + 10
    while reboot_occupants.lock_holder(str(path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    with path.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reboot_occupants, "PACKAGE_LOCKS", ("/a", "/b"))
    monkeypatch.setattr(reboot_occupants, "lock_holder", {"/a": 0, "/b": 12}.get)
    monkeypatch.setattr(occupants, "ask", lambda _argv, _timeout_s: (3, "", ""))
    assert reboot_occupants.reasons(tmp_path, 1.0) == ["packages are being changed: /b (pid 12) is locked"]


@pytest.mark.parametrize(
    ("rc", "listing", "found"),
    [
        (0, "", []),
        (0, "0 0 10.1.0.1:2049 10.1.0.7:811\n0 0 10.1.0.1:2049 10.1.0.7:812\n", ["10.1.0.7"]),
        (0, "0 0 [fd00::1]:2049 [fd00::7]:811\n", ["[fd00::7]"]),
        (127, "", ["unknown clients (ss: exit code 127)"]),
    ],
)
def test_clients_of_a_server(rc: int, listing: str, found: list[str]) -> None:
    assert reboot_occupants.nfs_peers(rc, listing) == found


def test_clients_count_only_where_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ss` really runs; only systemctl is answered for."""
    real = occupants.ask
    active = [0]

    def ask(argv: list[str], timeout_s: float) -> occupants.Answer:
        return (active[0], "", "") if argv[0] == "systemctl" else real(argv, timeout_s)

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = [word.replace("2049", str(port)) for word in reboot_occupants.NFS_CLIENTS]
        monkeypatch.setattr(reboot_occupants, "NFS_CLIENTS", words)
        monkeypatch.setattr(occupants, "ask", ask)
        with socket.create_connection(("127.0.0.1", port)):
            assert reboot_occupants.nfs_clients(5.0) == ["127.0.0.1"]
            active[0] = 3
            assert reboot_occupants.nfs_clients(5.0) == []
