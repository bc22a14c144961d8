"""Probes between hosts, over real sockets: reach, large packets, ports, and locks on a shared directory."""

from __future__ import annotations

import fcntl
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddp_play.guard import mpicheck, probe, sharedlock
from ddp_play.guard.probe import Listener, connect

HERE = "127.0.0.1"


@contextmanager
def server(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where the first caller is handled like this."""
    with socket.create_server((HERE, 0)) as sock:

        def serve() -> None:
            peer, _ = sock.accept()
            with peer:
                handle(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(sock.getsockname()[1])
        thread.join(10)


def test_hosts_that_reach_each_other() -> None:
    listener = Listener(HERE)
    try:
        assert connect([(HERE, listener.port)] * 3, HERE, 5) == []
        assert connect([], HERE, 5) == []
    finally:
        listener.close()


def test_nobody_there() -> None:
    with socket.create_server((HERE, 0)) as sock:
        port = int(sock.getsockname()[1])
    assert connect([(HERE, port)], HERE, 5) == [{"address": HERE, "port": port, "problem": "Connection refused"}]


def test_something_else_answers() -> None:
    with server(lambda peer: peer.sendall(b"SSH-2.0-x\r\n" + peer.recv(64))) as port:
        assert connect([(HERE, port)], HERE, 5)[0]["problem"] == "something else answers there"


def test_where_a_listener_need_not_echo_a_connection_is_enough() -> None:
    with server(lambda peer: None) as port:
        assert connect([(HERE, port)], HERE, 5, [port]) == []


def test_large_packets_that_do_not_come_through_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that swallows large packets looks like this from the end: a few bytes come back, many do not."""

    def narrow(peer: socket.socket) -> None:
        peer.sendall(peer.recv(64))
        while peer.recv(65536):
            pass

    with server(narrow) as port:
        problem = connect([(HERE, port)], HERE, 0.5)[0]["problem"]
    assert problem.startswith("small packets pass and large ones do not: the MTU differs")


def test_a_listener_can_have_the_very_port_that_ranks_will_use() -> None:
    with socket.create_server((HERE, 0)) as sock:
        port = int(sock.getsockname()[1])
    listener = Listener(HERE, port)
    assert listener.port == port
    assert connect([(HERE, port)], HERE, 5) == []
    listener.close()
    with socket.create_server((HERE, port)):
        pass  # and leaves it free
    assert probe.LARGE > 9000


def test_a_lock_held_elsewhere_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "rendezvous-1.lock"
    held = sharedlock.Held(path, "word")
    assert sharedlock.problem(path, "word") == ""
    assert "holds something else here" in sharedlock.problem(path, "other")
    held.close()
    assert not path.exists()


def test_a_lock_that_is_not_seen(tmp_path: Path) -> None:
    """What a mount with local locks shows: the file is there, and free."""
    path = tmp_path / "lock"
    path.write_text("word")
    assert "a lock that another host holds is not seen" in sharedlock.problem(path, "word")
    with path.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        assert sharedlock.problem(path, "word") == ""


def test_a_directory_that_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharedlock, "PATIENCE_S", 0.2)
    assert "not the same file system" in sharedlock.problem(tmp_path / "gone" / "lock", "word")


def spec(python: Path, **more: object) -> dict[str, object]:
    """A host's spec with one rank that this interpreter would run."""
    return {"runtime": "process", "ranks": [{"argv": [str(python), "t.py"], "env": {"PATH": "/usr/bin:/bin"}, **more}]}


def interpreter(path: Path, script: str) -> Path:
    """A stand-in whose last words are known."""
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_whether_ranks_have_mpi_is_asked_of_their_own_python(tmp_path: Path) -> None:
    good = interpreter(tmp_path / "python3", 'test "$1" = -c')
    assert mpicheck.problem(spec(good)) == ""
    bad = interpreter(
        tmp_path / "python3.1", "echo Traceback >&2; echo 'RuntimeError: cannot load MPI library' >&2; exit 1"
    )
    assert mpicheck.problem(spec(bad)) == "RuntimeError: cannot load MPI library"
    assert "No such file" in mpicheck.problem(spec(tmp_path / "python9"))


def test_and_in_a_container_like_the_ranks() -> None:
    create = ["create", "--name", "r0", "--network", "host", "--env", "A", "--workdir", "/", "image:1", "sh", "-c", "x"]
    words = mpicheck.command({"runtime": "docker", "ranks": [{"argv": ["./run.sh"], "create": create}]})
    assert words[1:-2] == ["run", "--rm", "--network", "host", "--env", "A", "--workdir", "/", "image:1", "python3"]
