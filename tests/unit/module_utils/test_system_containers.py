"""System containers of others, which a reboot would end without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import system_containers

if TYPE_CHECKING:
    from pathlib import Path


def process(procfs: Path, pid: int, group: str) -> None:
    """Files of a process below `procfs`."""
    (procfs / f"{pid}").mkdir()
    (procfs / f"{pid}/cgroup").write_text(f"0::{group}\n", encoding="ascii")


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    process(tmp_path, 1, "/init.scope")
    return tmp_path


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
        process(procfs, pid, group)
    assert system_containers.read(procfs) == ([name] if name else [])


def test_a_host_that_is_a_system_container_does_not_count_itself(tmp_path: Path) -> None:
    process(tmp_path, 1, "/lxc.payload.host/init.scope")
    process(tmp_path, 30, "/lxc.payload.host/system.slice/ssh.service")
    assert system_containers.read(tmp_path) == []
    process(tmp_path, 31, "/lxc.payload.host/lxc.payload.inner/init.scope")
    assert system_containers.read(tmp_path) == ["inner"]
