"""Leases on ports: one holder at a time, gone with their holder."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import leases

# The guard runs as a package of its own, without ddp_play.
SOURCES = str(Path(leases.__file__).parents[1])


def busy_port(address: str = "127.0.0.1") -> tuple[socket.socket, int]:
    sock = socket.socket()
    sock.bind((address, 0))
    sock.listen(1)
    return sock, sock.getsockname()[1]


def free_range() -> int:
    """The first of five ports that are free now."""
    for first in range(21000, 29000, 50):
        if all(leases.port_free(port) for port in range(first, first + 5)):
            return first
    raise AssertionError("no five free ports")


def test_one_holder_at_a_time() -> None:
    first = leases.hold("port-1")
    assert first is not None
    assert leases.hold("port-1") is None
    other = leases.hold("port-2")
    assert other is not None
    first.close()
    again = leases.hold("port-1")
    assert again is not None
    again.close()
    other.close()


def test_a_lease_ends_with_its_process() -> None:
    program = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        f"from pathlib import Path; from guard import leases; leases.LEASES = Path({str(leases.LEASES)!r})\n"
        "held = leases.hold('port-1'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert leases.hold("port-1") is None
        holder.kill()
    handle = leases.hold("port-1")
    assert handle is not None
    handle.close()


def test_the_directory_is_everybodys_and_the_files_are_no_symlinks(tmp_path: Any) -> None:
    handle = leases.hold("port-1")
    assert handle is not None
    handle.close()
    assert leases.LEASES.stat().st_mode & 0o7777 == 0o1777
    (leases.LEASES / "port-2").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        leases.hold("port-2")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_not_free(address: str) -> None:
    sock, port = busy_port(address)
    with sock:
        assert not leases.port_free(port)
    assert leases.port_free(port)


def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    first, real = free_range(), socket.socket

    def without(family: int = socket.AF_INET, *rest: Any, **more: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *rest, **more)

    monkeypatch.setattr(socket, "socket", without)
    assert leases.port_free(first)


def test_the_first_port_that_is_neither_leased_used_nor_to_be_avoided() -> None:
    first = free_range()
    held = leases.hold(f"port-{first}")
    assert held is not None
    sock = socket.socket()
    sock.bind(("127.0.0.1", first + 1))
    sock.listen(1)
    with sock, held:
        lease = leases.lease_port(first, first + 4, [first + 2])
        assert lease is not None
        assert lease.port == first + 3
        second = leases.lease_port(first, first + 4, [])
        assert second is not None
        assert second.port == first + 2
        lease.handle.close()
        second.handle.close()


def test_an_exhausted_range() -> None:
    first = free_range()
    held = leases.hold(f"port-{first}")
    assert held is not None
    with held:
        assert leases.lease_port(first, first, []) is None
    lease = leases.lease_port(first, first, [])
    assert lease is not None
    lease.handle.close()
    assert leases.lease_port(first, first, [first]) is None


def test_a_port_that_was_not_free_is_given_back() -> None:
    sock, port = busy_port()
    with sock:
        assert leases.lease_port(port, port, []) is None
    lease = leases.lease_port(port, port, [])
    assert lease is not None
    lease.handle.close()


def test_a_leased_port_that_a_stranger_took_takes_no_effect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        name = f"port-{taken.getsockname()[1]}"
        assert not leases.takes_effect(name)
    assert leases.takes_effect(name)
    assert leases.takes_effect("slot-3")


# -- slots ---------------------------------------------------------------------------------------------

NAMES = ["slot-0", "slot-1", "slot-2"]


@pytest.mark.parametrize(("taken", "need", "held"), [(0, 2, 2), (1, 2, 2), (2, 2, 0), (3, 1, 0), (0, 0, 0)])
def test_so_many_of_the_slots_or_none(tmp_path: Path, taken: int, need: int, held: int) -> None:
    others = leases.hold_slots(NAMES[:taken], taken, tmp_path)
    ours = leases.hold_slots(NAMES, need, tmp_path)
    assert len(ours) == held
    free = leases.hold_slots(NAMES, 3 - taken - held, tmp_path)
    assert len(free) == 3 - taken - held, "what was not enough was given back"
    for handle in (*others, *ours, *free):
        handle.close()


def test_whoever_holds_a_slot_is_named(tmp_path: Path) -> None:
    """By the kernel's list of locks and the guard's command line: nothing written down that could be stale."""
    root = tmp_path / "runs" / "night-1" / "1.h1"
    root.mkdir(parents=True)
    (root / "spec.json").write_text('{"owner": "kim"}')
    program = tmp_path / "guard-0123.pyz"
    program.write_text(
        f"import sys; sys.path.insert(0, {SOURCES!r})\nfrom pathlib import Path; from guard import leases\n"
        f"held = leases.hold('slot-1', Path({str(tmp_path)!r})); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, str(program), "guard", str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        told = leases.slots_problem(NAMES, 3, tmp_path)
        assert told == "2 of 3 slots free and 3 needed; held by run night-1 of kim"
        assert leases.slots_problem(NAMES, 2, tmp_path) == ""
        process.communicate()
    assert leases.slots_problem(NAMES, 3, tmp_path) == ""


def test_a_slot_of_another_kind_of_holder_is_told_all_the_same(tmp_path: Path) -> None:
    handle = leases.hold("slot-0", tmp_path)
    assert leases.slots_problem(["slot-0"], 1, tmp_path) == "0 of 1 slots free and 1 needed; held by another run"
    assert handle is not None
    handle.close()


def test_a_lease_made_under_a_strict_umask_is_for_all_users(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        handle = leases.hold("slot-0", tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "slot-0").stat().st_mode & 0o777 == 0o666
    assert handle is not None
    handle.close()
