"""Tickets on one host: held by processes and read with limits; what a neighbour makes of them blocks nobody."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import leases, slot_order, slot_queue
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import user_name
from ddp_play.guard.slot_order import Ticket

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = str(Path(leases.__file__).parents[1])
SLOTS = ("slot-0", "slot-1")
ROOT = os.geteuid() == 0
NEIGHBOUR = 65534 if ROOT else os.geteuid()


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of its own, for tickets and slots."""
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))


@pytest.fixture
def places() -> Iterator[list[slot_queue.QueuePlace]]:
    """Places in the queue that are left at the end."""
    made: list[slot_queue.QueuePlace] = []
    yield made
    for place in made:
        place.leave()


def ticket(time: float, need: int = 1, token: str = "") -> Ticket:
    token = token or f"{int(time):016x}"
    return Ticket(
        time, token, "h1", need, SLOTS, run=f"run-{time:g}", owner="kim", controller="login2", uid=os.geteuid()
    )


def join(places: list[slot_queue.QueuePlace], mine: Ticket) -> dict[str, Any]:
    places.append(slot_queue.QueuePlace())
    return places[-1].look(mine)


def tickets() -> list[Ticket]:
    return slot_queue.read_tickets(leases.slot_scope(), leases.bound_names())


def test_the_oldest_is_ready_and_the_others_see_who_is_ahead(places: list[slot_queue.QueuePlace]) -> None:
    assert join(places, ticket(10, 2))["ready"]
    behind = join(places, ticket(11))
    assert (behind["ready"], [row["run"] for row in behind["ahead"]]) == (False, ["run-10"])
    assert behind["problem"] == "2 of 2 slots free and 1 needed; reserved for runs that have waited longer"
    places[0].leave()
    assert places[1].look(ticket(11))["ready"]
    assert [row.run for row in tickets()] == ["run-11"]


def test_a_query_without_a_time_returns_the_clock_and_holds_nothing() -> None:
    fields = {"host": "h1", "need": 1, "names": list(SLOTS), "time": None}
    answer = slot_queue.QueuePlace().look(slot_queue.ticket_of(fields, "night.0123456789abcdef"))
    assert answer["clock"] == pytest.approx(time.time(), abs=5)
    assert not answer["ready"]
    assert tickets() == []


def test_the_order_of_the_controller_becomes_the_ticket() -> None:
    fields = {"host": "h1", "need": 1, "names": list(SLOTS), "time": 10, "owner": "kim", "controller": "login2"}
    found = slot_queue.ticket_of(fields, "run-10.000000000000000a")
    assert found == ticket(10)


def test_holders_of_slots_are_named_while_too_few_are_free(places: list[slot_queue.QueuePlace]) -> None:
    held = leases.hold("slot-0", leases.slot_scope())
    assert held is not None
    with held.answer():
        first = join(places, ticket(10, 2))
        assert not first["ready"]
        assert first["problem"].startswith("1 of 2 slots free and 2 needed; held by process ")
        assert join(places, ticket(11))["problem"].startswith("1 of 2 slots free and 1 needed; reserved")
        other = leases.hold("slot-1", leases.slot_scope())
        assert other is not None
        with other:
            assert (
                places[0].look(ticket(10, 2))["problem"].startswith("0 of 2 slots free and 2 needed; held by process ")
            )
    assert places[0].look(ticket(10, 2))["ready"]


def test_a_channel_that_replaces_a_silent_one_keeps_the_place(places: list[slot_queue.QueuePlace]) -> None:
    """The old channel has the ticket for up to half a minute."""
    assert join(places, ticket(10))["ready"]
    assert join(places, ticket(10))["ready"]
    places[0].look(ticket(10))
    places[0].leave()
    assert tickets() == []
    places[1].look(ticket(10))
    assert [row.run for row in tickets()] == ["run-10"]


def test_a_run_without_slots_has_no_ticket(places: list[slot_queue.QueuePlace]) -> None:
    assert join(places, ticket(10, 0))["ready"]
    assert not [name for name in leases.bound_names() if f"{leases.slot_scope()}/ticket-" in name]


def test_a_ticket_has_the_same_name_in_all_versions(places: list[slot_queue.QueuePlace]) -> None:
    """Channels of two versions must not queue one run twice."""
    join(places, ticket(10))
    assert f"@{leases.slot_scope()}/ticket-000000000000000a-33112ee1" in leases.bound_names()


def test_holders_are_found_once_for_the_same_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads all of /proc; a run that waits looks once a second."""
    answers = iter(["held by kim", "held by kim and pat", "", "held by pat"])
    monkeypatch.setattr(leases, "slots_problem", lambda *_: next(answers))
    place, found = slot_queue.QueuePlace(), slot_order.Turn(False, 0, ())
    told = [place._problem(ticket(10, 2), found, held) for held in ({"a"}, {"a"}, {"a", "b"}, {"b"}, {"b"})]
    freed = "slots were taken and freed a moment ago"
    assert told == ["held by kim", "held by kim", "held by kim and pat", freed, "held by pat"]


def test_so_many_tickets_are_read(places: list[slot_queue.QueuePlace], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.guard.slot_queue.MAX_TICKETS", 2)
    for number in range(1, 5):
        join(places, ticket(number))
    assert sorted(row.run for row in tickets()) == ["run-1", "run-2"]


def test_an_answer_is_cut_when_it_is_too_long() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(b"[" * (slot_order.MAX_TICKET_BYTES + 1))
        ((sock, data),) = slot_queue._answers([ours])
    assert sock is ours
    assert len(data) > slot_order.MAX_TICKET_BYTES


def test_a_run_without_a_ticket_takes_no_reserved_slot(places: list[slot_queue.QueuePlace]) -> None:
    wanted = {"names": list(SLOTS), "need": 1}
    slot_queue.check_reservations(wanted)
    join(places, ticket(10))
    slot_queue.check_reservations(wanted)
    join(places, ticket(11))
    with pytest.raises(
        Refused, match=r"2 of 2 slots free and 1 needed; .*: first run run-10 of kim from login2"
    ) as told:
        slot_queue.check_reservations(wanted)
    assert told.value.kind == "slots"
    held = leases.hold("slot-9", leases.slot_scope())
    assert held is not None
    with held:
        slot_queue.check_reservations({"names": ["slot-9"], "need": 1})  # held: the leases have a better message
    slot_queue.check_reservations({"names": [], "need": 0})
    slot_queue.check_reservations({})


# -- waiters that die --------------------------------------------------------------------------------


@contextlib.contextmanager
def neighbour(body: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user (if this is root) that says `held` once it has done `body`."""
    drop = "os.setgroups([]); os.setgid(65534); os.setuid(65534)" if ROOT else ""
    program = (
        f"import os, socket, sys, threading, time; sys.path.insert(0, {SOURCES!r})\n"
        "from guard import leases, slot_order, slot_queue\n"
        f"scope = {leases.slot_scope()!r}\n{drop}\n{body}\nprint('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


def holding(data: bytes, name: str = "ticket-a") -> str:
    return f"h = leases.hold({name!r}, scope).answer({data!r})"


def test_a_ticket_is_gone_with_its_process_and_one_that_does_not_answer_does_not_count() -> None:
    with neighbour(holding(slot_order.written(ticket(10, 2)))) as process:
        (found,) = tickets()
        assert (found.run, found.uid) == ("run-10", NEIGHBOUR)
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert tickets() == []
        assert time.monotonic() - began < slot_queue.ANSWERS_WITHIN_S + 1
        process.send_signal(signal.SIGCONT)
        assert [row.run for row in tickets()] == ["run-10"], "it goes on"
        process.kill()
        process.wait()
        assert tickets() == []


# -- what a neighbour can put into the queue -----------------------------------------------------------

FUTURE = slot_order.written(ticket(4e12, 2))
BAD = {
    "garbage": holding(b"\x00\xff{garbage"),
    "nothing": holding(b""),
    "a future time": holding(FUTURE),
    "a time before all": holding(json.dumps({**json.loads(FUTURE), "time": -1}).encode()),
    "more slots than there are": holding(json.dumps({**json.loads(FUTURE), "time": 1, "need": 10**9}).encode()),
    "a huge answer": (
        "def huge():\n"
        "  while True:\n"
        "    c = s.accept()[0]\n"
        "    try:\n"
        "      while True: c.sendall(b'[' * 65536)\n"
        "    except OSError: pass\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('\\0' + scope + '/ticket-a'); s.listen()\n"
        "threading.Thread(target=huge, daemon=True).start()"
    ),
    "no answer": "s = socket.socket(socket.AF_UNIX); s.bind('\\0' + scope + '/ticket-a'); s.listen()",
    "a full queue": (
        "s = socket.socket(socket.AF_UNIX); s.bind('\\0' + scope + '/ticket-a'); s.listen(0)\n"
        "callers = [socket.socket(socket.AF_UNIX) for _ in range(3)]\n"
        "for c in callers: c.setblocking(False); c.connect_ex('\\0' + scope + '/ticket-a')"
    ),
    "no listener": "s = socket.socket(socket.AF_UNIX); s.bind('\\0' + scope + '/ticket-a')",
    "a datagram socket": "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('\\0' + scope + '/ticket-a')",
    "odd names": (
        "held = []\n"
        "for name in (b'a\\nb', b'\\xff\\xfe', b'a b', b'', b'a\\0b', b'x' * 50):\n"
        "  s = socket.socket(socket.AF_UNIX); s.bind(b'\\0' + scope.encode() + b'/ticket-' + name); s.listen()\n"
        "  held.append(s)"
    ),
    "as many as it can": (
        "held = [socket.socket(socket.AF_UNIX) for _ in range(900)]\n"
        "for at, s in enumerate(held): s.bind('\\0%s/ticket-%04d' % (scope, at)); s.listen()"
    ),
    "the name of our ticket": holding(FUTURE, "ticket-000000000000000a-33112ee1"),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_a_bad_ticket_blocks_nobody(places: list[slot_queue.QueuePlace], body: str) -> None:
    with neighbour(body):
        began = time.monotonic()
        assert join(places, ticket(10, 2))["ready"]
        assert [row.run for row in tickets() if row.time < 100] in (["run-10"], []), "full, or not ours: without order"
        assert time.monotonic() - began < 2 * slot_queue.ANSWERS_WITHIN_S + 2


@pytest.mark.skipif(not ROOT, reason="needs root and a second user")
def test_a_ticket_in_the_name_of_another_user_is_shown_with_its_own_user(places: list[slot_queue.QueuePlace]) -> None:
    """It is older than all and wants all slots; whoever looks for its owner must not ask kim."""
    with neighbour(holding(slot_order.written(ticket(1, 2)))):
        (row,) = join(places, ticket(10))["ahead"]
        assert (row["owner"], row["run"]) == (f"{user_name(NEIGHBOUR)} (as kim)", "run-1")
        with pytest.raises(Refused, match=rf"first run run-1 of {user_name(NEIGHBOUR)} \(as kim\) from login2"):
            slot_queue.check_reservations({"names": list(SLOTS), "need": 1})


@pytest.mark.skipif(not ROOT, reason="needs root and a second user")
@pytest.mark.parametrize("claim", ["", user_name(NEIGHBOUR)])
def test_a_user_is_named_once(claim: str) -> None:
    with neighbour(holding(slot_order.written(ticket(1)._replace(owner=claim)))):
        assert [row.owner for row in tickets()] == [user_name(NEIGHBOUR)]


def test_a_caller_that_does_not_read_holds_up_no_ticket(places: list[slot_queue.QueuePlace]) -> None:
    join(places, ticket(10))
    (name,) = (name for name in leases.bound_names() if "/ticket-" in name and leases.slot_scope() in name)
    with contextlib.ExitStack() as callers:
        for _ in range(20):
            caller = callers.enter_context(socket.socket(socket.AF_UNIX))
            caller.connect("\0" + name[1:])
        assert [row.run for row in tickets()] == ["run-10"]
