"""Leases on ports: one holder at a time, gone with their holder."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import file_leases, leases
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import user_name

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@contextlib.contextmanager
def neighbour(body: str, *words: str, name: str = "-c") -> Iterator[subprocess.Popen[bytes]]:
    """Another process that says `held` once `body` has what it wants."""
    program = f"import os, socket, sys; sys.path.insert(0, {SOURCES!r})\nfrom guard import leases\n{body}\n"
    program += "print('held', flush=True); sys.stdin.read()"
    if name != "-c":
        Path(name).write_text(program)
    command = [sys.executable, name, *([program] if name == "-c" else []), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.communicate()


def test_whoever_holds_a_slot_is_named_however_often_one_asks(tmp_path: Path, scope: str) -> None:
    """By the kernel and the guard's command line: nothing written down that could be stale."""
    root = tmp_path / "runs" / "night-1" / "1.h1"
    root.mkdir(parents=True)
    (root / "spec.json").write_text('{"owner": "kim"}')
    # a queue of one: without an answer the second question would find no room
    body = f"leases.socket.SOMAXCONN = 0\nheld = leases.hold('slot-1', {scope!r}).answer()"
    with neighbour(body, "guard", str(root), name=str(tmp_path / "guard-0123.pyz")):
        for _ in range(5):
            told = leases.slots_problem(NAMES, 3, scope)
            assert told == "2 of 3 slots free and 3 needed; held by run night-1 of kim"
            time.sleep(0.1)
        assert leases.slots_problem(NAMES, 2, scope) == ""
    assert leases.slots_problem(NAMES, 3, scope) == ""


def test_a_question_takes_no_slot(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "hold", lambda *_: pytest.fail("it took one"))
    assert leases.slots_problem(NAMES, 3, scope) == ""


def test_a_run_whose_slots_are_taken_is_refused_with_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    leases.check_slots({})
    wanted = {"names": ["slot-0"], "need": 1}
    leases.check_slots(wanted)
    held = leases.hold("slot-0", leases.slot_scope())
    assert held is not None
    with held.answer(), pytest.raises(Refused, match="0 of 1 slots free and 1 needed; held by process") as caught:
        leases.check_slots(wanted)
    assert (caught.value.kind, "ddp-play run --wait" in caught.value.hint) == ("slots", True)


AS_NOBODY = "os.setgroups([]); os.setgid(65534); os.setuid(65534)" if os.geteuid() == 0 else ""
WHO = user_name(65534 if AS_NOBODY else os.geteuid())


def test_a_neighbour_on_our_slot_or_port_is_named_and_keeps_it_no_longer_than_it_lives(scope: str) -> None:
    port = free_range()
    body = f"{AS_NOBODY}\na = leases.hold('slot-0', {scope!r}); b = leases.hold('port-{port}', {leases.SCOPE!r})"
    with neighbour(body) as process:
        who = f"process {process.pid} of {WHO}"
        assert leases.slots_problem(["slot-0"], 1, scope) == f"0 of 1 slots free and 1 needed; held by {who}"
        assert leases.lease_port(port, port, []) is None
        assert leases.ports_problem(port, port) == f"no free port between {port} and {port}; 1 leased by {who}"
    assert leases.slots_problem(["slot-0"], 1, scope) == ""
    assert leases.ports_problem(port, port) == f"no free port between {port} and {port}"


def test_a_neighbour_that_claims_to_be_anothers_guard_is_told_by_its_own_name(tmp_path: Path, scope: str) -> None:
    if not AS_NOBODY:
        pytest.skip("needs root, to be two users")
    root = tmp_path / "runs" / "night-1" / "1.h1"
    root.mkdir(parents=True)
    (root / "spec.json").write_text('{"owner": "kim"}')
    body = f"{AS_NOBODY}\na = leases.hold('slot-0', {scope!r})"
    with neighbour(body, "guard", str(root), name=str(tmp_path / "guard-0123.pyz")):
        assert leases.slots_problem(["slot-0"], 1, scope).endswith(f"held by run night-1 of {WHO}")


@pytest.mark.parametrize("listens", [False, True])
def test_a_holder_that_does_not_answer_counts_as_one(scope: str, listens: bool) -> None:
    body = f"a = socket.socket(socket.AF_UNIX); a.bind('\\0{scope}/slot-0')\nif {listens}: a.listen(0)"
    with neighbour(body):
        if listens:
            assert "process" in leases.slots_problem(["slot-0"], 1, scope), "the one question there is room for"
        assert leases.hold("slot-0", scope) is None
        told = leases.slots_problem(["slot-0"], 1, scope)
        assert told.startswith("0 of 1 slots free and 1 needed; held by a process that does not answer")


def test_a_holders_message_reaches_whoever_asks(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MESSAGE_S", 0.05)
    assert leases.message_of("run-night", scope) == b"", "nobody holds it"
    held = leases.hold("run-night", scope)
    assert held is not None
    with held:
        assert leases.message_of("run-night", scope) == b"", "it does not answer"
    held = leases.hold("run-night", scope)
    assert held is not None
    monkeypatch.setattr(leases, "MESSAGE_S", 10.0)
    with held.answer(b"night.0123"):
        assert [leases.message_of("run-night", scope) for _ in range(2)] == [b"night.0123"] * 2


def test_holders_of_other_ports_are_not_named() -> None:
    first = free_range()
    held = leases.hold_slots([f"port-{first}", f"port-{first + 3}"], 2, "")
    with held[0].answer(), held[1].answer():
        assert leases.ports_problem(first + 1, first + 2) == f"no free port between {first + 1} and {first + 2}"
        assert "; 2 leased by process " in leases.ports_problem(first, first + 3)


def test_many_holders_are_counted() -> None:
    assert leases._listed([f"run r{n} of kim" for n in range(8)]).endswith(", run r4 of kim, 3 more")
    assert leases._listed(["run r1 of kim"] * 8) == "run r1 of kim"
    assert leases._listed([f"r{n}" for n in range(5)]) == "r0, r1, r2, r3, r4"


def test_every_name_of_the_kernels_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00010000 0001 01 10001 @ddp-play/slot-0\n"
        "0000: 00000003 00000000 00000000 0001 03 10002\n"
        "0000: 00000002 00000000 00010000 0001 01 10003 /run/a name with blanks\n"
    )
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: table)
        assert leases.bound_names() - {"Path"} == {"@ddp-play/slot-0", "/run/a name with blanks"}
    monkeypatch.setattr(leases, "Path", lambda _: Path("/proc/net/no-such-table"))
    assert leases.bound_names() == set()


def test_a_lease_is_free_at_once_when_it_is_closed(scope: str) -> None:
    for _ in range(20):
        lease = leases.hold("slot-0", scope)
        assert lease is not None, "the thread that answers must not keep the name"
        with lease.answer():
            pass
