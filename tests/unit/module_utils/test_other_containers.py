"""Containers of podman, Kubernetes and engines of users, found by control groups as Linux shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import occupants, other_containers

if TYPE_CHECKING:
    from pathlib import Path

ID = "3f2a9c1b" * 8
USER = "/user.slice/user-1001.slice/user@1001.service"


def process(procfs: Path, pid: int, *groups: str, name: str = "python3") -> None:
    """A process with its control groups, one for each hierarchy."""
    folder = procfs / str(pid)
    folder.mkdir()
    rows = enumerate(reversed(groups))
    (folder / "cgroup").write_text("".join(f"{number}:{'name=x' if number else ''}:{path}\n" for number, path in rows))
    (folder / "comm").write_text(f"{name}\n")


@pytest.mark.parametrize(
    ("group", "engine"),
    [
        (f"/machine.slice/libpod-{ID}.scope", "podman"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman"),
        (f"{USER}/user.slice/libpod-{ID}.scope/container", "podman"),
        (f"/libpod_parent/libpod-{ID}", "podman"),
        (f"{USER}/docker.service/docker-{ID}.scope", "rootless Docker"),
        (f"{USER}/app.slice/docker-{ID}.scope", "rootless Docker"),
        (f"/kubepods.slice/kubepods-besteffort.slice/cri-containerd-{ID}.scope", "containerd"),
        (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", "CRI-O"),
        (f"/system.slice/nerdctl-{ID}.scope", "nerdctl"),
        (f"/kubepods/besteffort/pod1/{ID}", "Kubernetes"),
        # docker ps lists these; the monitor of a container is none
        (f"/system.slice/docker-{ID}.scope", ""),
        (f"/docker/{ID}", ""),
        (f"/machine.slice/libpod-conmon-{ID}.scope", ""),
        ("/system.slice/ssh.service", ""),
        ("/", ""),
    ],
)
def test_the_group_of_a_process_says_whose_container_it_is_in(tmp_path: Path, group: str, engine: str) -> None:
    process(tmp_path, 1, "/init.scope", name="systemd")
    process(tmp_path, 70, group)
    assert [row.engine for row in other_containers.read(tmp_path)] == ([engine] if engine else [])


def test_a_container_counts_once_and_is_named_by_its_oldest_process(tmp_path: Path) -> None:
    process(tmp_path, 1, "/", name="systemd")
    for pid, name in ((900, "worker"), (77, "train.py")):
        process(tmp_path, pid, f"/machine.slice/libpod-{ID}.scope", f"/libpod-{ID}", name=name)
    (row,) = other_containers.read(tmp_path)
    assert str(row) == "3f2a9c1b3f2a (train.py)"
    (reason,) = occupants.reasons("running", "", [], 0, [], others=[row])
    assert reason == "1 container of podman running: 3f2a9c1b3f2a (train.py)"


def test_a_host_that_is_a_container_of_podman_is_not_busy_by_itself(tmp_path: Path) -> None:
    own = f"/machine.slice/libpod-{ID}.scope"
    process(tmp_path, 1, f"{own}/init.scope", name="systemd")
    process(tmp_path, 50, f"{own}/system.slice/ssh.service")
    assert other_containers.read(tmp_path) == []
    inner = "ab" * 32
    process(tmp_path, 60, f"{own}/machine.slice/libpod-{inner}.scope")
    assert [row.id for row in other_containers.read(tmp_path)] == [inner]


def test_processes_that_end_meanwhile_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "12").mkdir()
    process(tmp_path, 13, f"/machine.slice/libpod-{ID}.scope")
    (tmp_path / "13" / "comm").unlink()
    assert [str(row) for row in other_containers.read(tmp_path)] == ["3f2a9c1b3f2a (?)"]
