"""Leases on ports and slots: one holder at a time, gone with their holder. Who holds one: tests/unit/attacks."""

from __future__ import annotations

import contextlib
import errno
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import file_leases, leases
from tests.unit.guard.free_ports import free_range

if TYPE_CHECKING:
    from collections.abc import Iterator

# The guard runs as a package of its own, without ddp_play.
SOURCES = str(Path(leases.__file__).parents[1])


def busy_port(address: str = "127.0.0.1") -> tuple[socket.socket, int]:
    sock = socket.socket()
    sock.bind((address, 0))
    sock.listen(1)
    return sock, sock.getsockname()[1]


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
        f"from guard import leases; leases.SCOPE = {leases.SCOPE!r}\n"
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


def test_a_lease_makes_no_file_where_no_earlier_version_was() -> None:
    """A directory in /tmp that `nobody` links elsewhere had root create world-writable files there."""
    with touched_files() as touched:
        lease = leases.hold("port-1")
        assert lease is not None
        assert leases.hold("port-1") is None
        lease.close()
    assert touched == [f"open {file_leases.DIRECTORY}"], "it is looked for, and not made"
    assert not file_leases.DIRECTORY.exists()


@contextlib.contextmanager
def touched_files() -> Iterator[list[str]]:
    """What this process opens or makes meanwhile, as Python's audit events tell."""
    touched: list[str] = []
    watching = [True]

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("open", "os.mkdir", "os.chmod"):
            touched.append(f"{event} {arguments[0]}")

    sys.addaudithook(audit)
    try:
        yield touched
    finally:
        watching.clear()


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_not_free(address: str) -> None:
    sock, port = busy_port(address)
    with sock:
        assert not leases.port_free(port)
    assert leases.port_free(port)


def test_a_port_is_free_when_only_ended_connections_have_it() -> None:
    """They stay in TIME_WAIT for a minute; the store of torch can listen there."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        port = server.getsockname()[1]
        server.accept()[0].close()
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


@pytest.fixture
def scope() -> str:
    """A host of its own, for slots."""
    return f"{leases.SCOPE}/slots"


@pytest.mark.parametrize(("taken", "need", "held"), [(0, 2, 2), (1, 2, 2), (2, 2, 0), (3, 1, 0), (0, 0, 0)])
def test_so_many_of_the_slots_or_none(scope: str, taken: int, need: int, held: int) -> None:
    others = leases.hold_slots(NAMES[:taken], taken, scope)
    ours = leases.hold_slots(NAMES, need, scope)
    assert len(ours) == held
    free = leases.hold_slots(NAMES, 3 - taken - held, scope)
    assert len(free) == 3 - taken - held, "what was not enough was given back"
    for handle in (*others, *ours, *free):
        handle.close()


def test_a_place_that_stands_for_a_host_has_slots_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scopes = []
    for place in (tmp_path / "a", tmp_path / "b", tmp_path / "a" / ".." / "b"):
        monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(place))
        scopes.append(leases.slot_scope())
    assert scopes[0] != scopes[1] == scopes[2] != leases.SCOPE
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    assert leases.slot_scope() == leases.SCOPE


def test_all_versions_give_a_slot_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of an earlier version holds slots that a later one asks for."""
    monkeypatch.setattr(leases, "SCOPE", "ddp-play")
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", "/hosts/one")
    assert leases._address("slot-0", leases.slot_scope()) == "\0ddp-play/d68c7f8626d3830e/slot-0"
    assert leases._address("port-29500", "") == "\0ddp-play/port-29500"
