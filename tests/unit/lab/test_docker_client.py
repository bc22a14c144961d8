"""Errors of a missing engine, a closed socket and a missing permission."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.lab import docker_client

if TYPE_CHECKING:
    from pathlib import Path

BY_HAND = "sh -c 'dockerd >/var/log/dockerd.log 2>&1 &'"


def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HostNotReady, match="no Docker engine answers at unix://") as caught:
        docker_client.connect()
    assert "install" in caught.value.hint


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (["usr/sbin/dockerd", "run/systemd/system/"], "start it (systemctl start docker) or install one ("),
        (["usr/sbin/dockerd", "etc/init.d/docker", "proc/1/comm"], "start it (service docker start) or install one ("),
        (["usr/sbin/dockerd", "etc/init.d/docker"], f"start it ({BY_HAND}) or install one ("),
        (["run/systemd/system/"], "install one (apt-get install docker.io; systemctl start docker)"),
        ([], f"install one (apt-get install docker.io; {BY_HAND})"),
    ],
)
def test_the_command_that_starts_it_fits_this_machine(
    files: list[str], hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a container, whose process 1 is not systemd, only `systemctl start docker` was named."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for name in files:
        path = tmp_path / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text("init\n")
            path.chmod(0o755)
    assert docker_client.start_hint(tmp_path).startswith(hint)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "sudo apt-get install docker.io" in docker_client.start_hint(tmp_path)


def test_an_engine_elsewhere_is_not_started_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(HostNotReady) as caught:
        docker_client.connect()
    assert caught.value.hint == "start it on its machine, or correct DOCKER_HOST"


def test_a_dead_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with pytest.raises(HostNotReady, match="no Docker engine answers"):
        docker_client.connect()


def test_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    class ClosedDoor(socket.socket):
        def connect(self, address: object, /) -> None:
            raise PermissionError(13, "Permission denied", address)

    monkeypatch.setenv("DOCKER_HOST", "unix:///run/docker.sock")
    monkeypatch.setattr("socket.socket", ClosedDoor)
    with pytest.raises(HostNotReady, match="refuses this user") as caught:
        docker_client.connect()
    assert "usermod -aG docker" in caught.value.hint


@pytest.mark.parametrize(("url", "local"), [("", True), ("unix:///run/x.sock", True), ("ssh://box", False)])
def test_a_remote_engine_is_not_this_machine(monkeypatch: pytest.MonkeyPatch, url: str, local: bool) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    assert docker_client.is_local() is local
