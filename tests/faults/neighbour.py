"""What an ordinary user of a host tries against a run there: each path, process and socket of it that root has found.

    python3 neighbour.py < targets.json

Prints {attempt: outcome}; an outcome is the error that the kernel or the program gave, or `done` where it succeeded.
Standard library only: it runs on the hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

CONNECTIONS = 200


def read(path: str) -> None:
    """Contents of a file or of a directory."""
    if Path(path).is_dir():
        list(Path(path).iterdir())
    else:
        with Path(path).open("rb") as file:
            file.read(1)


def write(path: str) -> None:
    """Other contents, or another entry."""
    if Path(path).is_dir():
        evil = Path(path) / "evil"
        evil.mkdir()
        evil.rmdir()
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def replace(path: str) -> None:
    """Another file under the name."""
    Path(path).rename(path + ".stolen")


def redirect(path: str) -> None:
    """A symbolic link under the name."""
    target = Path(path)
    if target.is_dir() and not target.is_symlink():
        target.rmdir()
    else:
        target.unlink()
    target.symlink_to("/etc/passwd")


def change(path: str) -> None:
    """Rights for everybody."""
    Path(path).chmod(0o777)


def block(path: str) -> None:
    """A lock that the program wants."""
    with Path(path).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def kill(pid: str) -> None:
    """The end of a process."""
    os.kill(int(pid), signal.SIGKILL)


def freeze(pid: str) -> None:
    """A process that does nothing any more."""
    os.kill(int(pid), signal.SIGSTOP)


def environment(pid: str) -> None:
    """Values of the environment."""
    read(f"/proc/{pid}/environ")


def memory(pid: str) -> None:
    """All that a process knows."""
    read(f"/proc/{pid}/mem")


def descriptors(pid: str) -> None:
    """Its open files."""
    read(f"/proc/{pid}/fd")


def take_name(name: str) -> None:
    """The name of a socket of the program's own."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as mine:
            mine.bind("\0" + name)
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as other:
                other.connect("\0" + name)
    raise OSError("it is in use, or of use to nobody")


def order(name: str) -> None:
    """A guard that stops its ranks, or tells its state. A lease names its holder to everybody; that is no harm."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        try:
            peer = socket.socket(socket.AF_UNIX, kind)
            peer.settimeout(2)
            peer.connect("\0" + name)
        except OSError:
            continue
        with peer:
            for line in (b'{"t": "stop", "grace": 0}\n', b'{"order": "stop", "now": true}\n', b"\xff" * 4096):
                peer.sendall(line)
            answer = peer.recv(4096)
            if b'"phase"' in answer or b'"ranks"' in answer:
                return
            raise OSError(f"it says {answer!r}")
    raise OSError("nobody listens")


def exhaust(name: str) -> None:
    """Every connection that a guard can hold, for a second; whether the run suffers is seen in the run."""
    held = []
    with contextlib.suppress(OSError):
        for _ in range(CONNECTIONS):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            held.append(peer)
            peer.settimeout(0.2)
            peer.connect("\0" + name)
            peer.send(b"{")
    for peer in held:
        peer.close()
    raise OSError(f"{len(held)} connections, and no more")


Acts = tuple[Callable[[str], None], ...]
PATHS: Acts = (read, write, replace, redirect, change, block)
PROCESSES: Acts = (freeze, kill, environment, memory, descriptors)
SOCKETS: Acts = (take_name, order, exhaust)


def main() -> None:
    """Try everything."""
    targets = json.load(sys.stdin)
    outcomes: dict[str, str] = {}
    for kind, acts in (("paths", PATHS), ("pids", PROCESSES), ("sockets", SOCKETS)):
        for target in targets[kind]:
            for act in acts:
                try:
                    act(target)
                    outcome = "done"
                except (OSError, ValueError) as error:
                    outcome = str(error)
                outcomes[f"{act.__name__} {target}"] = outcome
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main()
