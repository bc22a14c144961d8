"""Messages with descriptors over a unix socket, also where the path is longer than a socket's address."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ddp_play.ansible import descriptor_messages as messages


def test_a_message_arrives_with_its_descriptors() -> None:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    with ours, theirs:
        large = {"environment": "x" * 300_000}
        theirs.settimeout(5)
        ours.settimeout(5)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        messages.send(ours, large, [writing])
        os.close(writing)
        found, (received,) = messages.receive(theirs)
        assert found == large
        assert not os.get_inheritable(received)
        os.write(received, b"through")
        os.close(received)
        assert os.read(reading, 100) == b"through"
        os.close(reading)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", EOFError),
        (b"\0\0\0\4{}", EOFError),
        (b"\0\0\0\2[]", TypeError),
        (b"\0\0\0\3{x}", ValueError),
        (b"\x7f\0\0\0", ValueError),
    ],
)
def test_what_is_no_message_is_an_error(sent: bytes, error: type[Exception]) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(sent)
        with pytest.raises(error):
            messages.receive(theirs)


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    path = str(folder / "socket")
    with messages.listen(path) as listening, messages.connect(path, 5) as ours:
        theirs, _ = listening.accept()
        with theirs:
            assert messages.check_peer(theirs) == os.getpid()
            messages.send(ours, {"a": 1})
            assert messages.receive(theirs) == ({"a": 1}, [])


def test_nobody_listens(tmp_path: Path) -> None:
    messages.listen(str(tmp_path / "socket")).close()
    with pytest.raises(ConnectionRefusedError):
        messages.connect(str(tmp_path / "socket"), 1)
