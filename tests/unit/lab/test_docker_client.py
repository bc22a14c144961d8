"""Errors of a missing engine, a closed socket and a missing permission."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.lab import docker_client

if TYPE_CHECKING:
    from pathlib import Path


def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HostNotReady, match="no Docker engine answers at unix://") as caught:
        docker_client.connect()
    assert "install" in caught.value.hint


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
