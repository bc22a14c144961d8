"""Bytes that ranks' sockets move are progress; a heartbeat is not."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from ddp_play.guard import socket_activity


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection of this process with itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


def test_the_kernel_counts_bytes_per_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    inode = os.fstat(near.fileno()).st_ino
    before = socket_activity.tcp_bytes()
    if before is None:
        pytest.skip("this kernel has no sock_diag")
    near.sendall(b"x" * 10_000)
    received = 0
    while received < 10_000:
        received += len(far.recv(65536))
    after = socket_activity.tcp_bytes()
    assert after is not None
    assert after[inode] - before[inode] >= 10_000


def test_traffic_is_noticed_and_silence_too(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    if socket_activity.tcp_bytes() is None:
        pytest.skip("this kernel has no sock_diag")
    monkeypatch.setattr(socket_activity, "EVERY_S", 0.0)
    near, far = pair
    watch = socket_activity.Traffic()
    watch.look([os.getpid()])
    watch.moved_at = 0.0
    watch.look([os.getpid()])
    assert watch.moved_at == 0.0
    near.sendall(b"beat")  # a heartbeat
    far.recv(16)
    watch.look([os.getpid()])
    assert watch.moved_at == 0.0
    near.sendall(b"x" * 20_000)
    received = 0
    while received < 20_000:
        received += len(far.recv(65536))
    watch.look([os.getpid()])
    assert watch.moved_at > 0.0


def test_it_looks_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look() -> dict[int, int]:
        looks.append(1)
        return {}

    monkeypatch.setattr(socket_activity, "tcp_bytes", look)
    watch = socket_activity.Traffic()
    for _ in range(5):
        watch.look([os.getpid()])
    assert len(looks) == 1
