"""Virtual machines and system containers of others, which a reboot would end without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import guest_machines

if TYPE_CHECKING:
    from pathlib import Path


def process(
    procfs: Path, pid: int, *, group: str = "/system.slice/ssh.service", name: str = "sh", fd: str = "/x"
) -> None:
    """Files of a process below `procfs`."""
    (procfs / f"{pid}/fd").mkdir(parents=True)
    (procfs / f"{pid}/comm").write_text(f"{name}\n", encoding="ascii")
    (procfs / f"{pid}/cgroup").write_text(f"0::{group}\n", encoding="ascii")
    (procfs / f"{pid}/fd/7").symlink_to(fd)


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    process(tmp_path, 1, group="/init.scope", name="systemd")
    return tmp_path


def test_virtual_machines_by_kvm_and_by_the_emulators_name(procfs: Path) -> None:
    process(procfs, 20, name="cloud-hyperviso", fd="anon_inode:kvm-vm")
    process(procfs, 21, name="qemu-system-x86")
    process(procfs, 22, name="virtqemud", fd="anon_inode:[eventfd]")
    assert guest_machines.virtual_machines(procfs) == ["cloud-hyperviso (pid 20)", "qemu-system-x86 (pid 21)"]


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("/lxc.payload.web/init.scope", "web"),
        ("/lxc/web/system.slice/ssh.service", "web"),
        ("/machine.slice/machine-lxc\\x2d1\\x2dweb.scope", "lxc-1-web"),
        ("/machine.slice/systemd-nspawn@web.service/payload", "web"),
        # a virtual machine, known by its process; the monitor of a container; podman, as other_containers knows
        ("/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt", ""),
        ("/lxc.monitor.web", ""),
        ("/machine.slice/libpod-conmon-1.scope", ""),
    ],
)
def test_system_containers_by_their_groups(procfs: Path, group: str, name: str) -> None:
    for pid in (30, 31):
        process(procfs, pid, group=group)
    assert guest_machines.system_containers(procfs) == ([name] if name else [])


def test_a_host_that_is_a_system_container_does_not_count_itself(tmp_path: Path) -> None:
    process(tmp_path, 1, group="/lxc.payload.host/init.scope", name="systemd")
    process(tmp_path, 30, group="/lxc.payload.host/system.slice/ssh.service")
    assert guest_machines.system_containers(tmp_path) == []
    process(tmp_path, 31, group="/lxc.payload.host/lxc.payload.inner/init.scope")
    assert guest_machines.reasons(tmp_path) == ["system containers are running: inner"]
