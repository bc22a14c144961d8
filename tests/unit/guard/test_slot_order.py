"""Order of the runs that wait for slots: who may take free slots, and which tickets count."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from ddp_play.guard import slot_order
from ddp_play.guard.slot_order import Ticket

ALL = ("slot-0", "slot-1", "slot-2", "slot-3")
ME = 1000


def ticket(time: float, need: int = 1, token: str = "", names: tuple[str, ...] = ALL, **more: Any) -> Ticket:
    return Ticket(time=time, token=token or f"t{time}", host="h1", need=need, names=names, run=f"run-{time}", **more)


@pytest.mark.parametrize(
    ("mine", "others", "held", "ready", "ahead"),
    [
        pytest.param(ticket(5), [], ALL[:3], True, [], id="nobody waits, one slot is free"),
        pytest.param(ticket(5, 2), [], ALL[:3], False, [], id="nobody waits, too few are free"),
        pytest.param(ticket(5), [ticket(9, 4)], ALL[:3], True, [], id="a younger one reserves nothing"),
        pytest.param(ticket(5), [ticket(1)], ALL[:3], False, [1], id="the one free slot is for the older one"),
        pytest.param(ticket(5), [ticket(1)], ALL[:2], True, [1], id="the older one leaves a slot"),
        pytest.param(ticket(5), [ticket(1, 4)], ALL[:1], False, [1], id="three free slots wait for the fourth"),
        pytest.param(ticket(5), [ticket(1), ticket(2)], ALL[:2], False, [1, 2], id="both free slots are taken by two"),
        pytest.param(ticket(5), [ticket(1, 3), ticket(2)], (), False, [1, 2], id="every older one reserves"),
        pytest.param(ticket(5), [ticket(1e12, 4)], ALL[:3], True, [], id="a time in the future is last"),
        pytest.param(ticket(5, token="b"), [ticket(5, token="a")], ALL[:3], False, [5], id="same time: by token"),
        pytest.param(ticket(5, token="a"), [ticket(5, token="b")], ALL[:3], True, [], id="same time: by token, first"),
        pytest.param(
            ticket(5, names=("gpu-a",)), [ticket(1, 4)], ALL, True, [], id="other slots of the host do not matter"
        ),
        pytest.param(
            ticket(5, names=ALL[1:2]), [ticket(1, names=ALL[:2])], (), True, [1], id="the older one has another slot"
        ),
        pytest.param(
            ticket(5, names=ALL[1:2]),
            [ticket(1, names=ALL[:2])],
            ALL[:1],
            False,
            [1],
            id="the older one has no other slot",
        ),
        pytest.param(ticket(5, need=0, names=()), [ticket(1, 4)], ALL, True, [], id="a run without slots"),
    ],
)
def test_whose_turn_it_is(
    mine: Ticket, others: list[Ticket], held: tuple[str, ...], ready: bool, ahead: list[float]
) -> None:
    for tickets in (others, others[::-1], [*others, mine]):
        found = slot_order.turn(mine, tickets, set(held))
        assert found.ready == ready
        assert [row.time for row in found.ahead] == ahead
        assert found.num_free == len(set(mine.names) - set(held))


@dataclass
class Waiter:
    """A run of a simulation: its ticket on each of its hosts, and the slots that it holds there once it has started."""

    tickets: dict[str, Ticket]
    held: dict[str, set[str]] = field(default_factory=dict)


def waiters(chance: random.Random, clocks: dict[str, float]) -> list[Waiter]:
    """Runs that arrive one second after the other, on any hosts, with the latest of these hosts' clocks as number."""
    made = []
    for arrival in range(8):
        mine = chance.sample(sorted(clocks), chance.randint(1, len(clocks)))
        time = 10_000 + arrival + max(clocks[host] for host in mine)
        made.append(Waiter({host: ticket(time, chance.randint(1, 4), f"{arrival}") for host in mine}))
    return made


def may_start(run: Waiter, queue: list[Waiter], running: list[Waiter]) -> bool:
    for host, mine in run.tickets.items():
        held = set().union(*(other.held.get(host, set()) for other in running))
        tickets = [other.tickets[host] for other in queue if host in other.tickets]
        if not slot_order.turn(mine, tickets, held).ready:
            return False
    return True


def start(run: Waiter, running: list[Waiter]) -> None:
    for host, mine in run.tickets.items():
        held = set().union(*(other.held.get(host, set()) for other in running))
        run.held[host] = set(sorted(set(ALL) - held)[: mine.need])
        assert len(run.held[host]) == mine.need, "it was told that the slots are free"


@pytest.mark.parametrize("seed", range(100))
def test_runs_on_overlapping_hosts_never_wait_for_each_other(seed: int) -> None:
    """Whatever the hosts' clocks: while nothing runs somebody may start, and in the end all have run."""
    chance = random.Random(seed)
    clocks = {f"h{n}": chance.choice([0.0, 0.0, 3600.0, -9000.0]) for n in range(3)}
    queue, running = waiters(chance, clocks), list[Waiter]()
    oldest = min(queue, key=lambda run: next(iter(run.tickets.values())).place)
    assert may_start(oldest, queue, [])
    while queue or running:
        for run in chance.sample(queue, len(queue)):
            if may_start(run, queue, running):
                start(run, running)
                queue.remove(run)
                running.append(run)
        assert running, "all wait for each other"
        running.remove(chance.choice(running))


def test_two_inventory_hosts_on_one_machine_do_not_count_the_same_slot() -> None:
    mine = [ticket(5, 2, "me", uid=ME)._replace(host=host) for host in ("h1", "h2")]
    assert [slot_order.turn(each, mine, set(ALL[:1])).ready for each in mine] == [True, False]
    assert [slot_order.turn(each, mine, set()).ready for each in mine] == [True, True]
    assert slot_order.turn(mine[1], mine, set(ALL)).ahead == (), "a run is not behind itself"


def test_another_user_with_our_token_is_named() -> None:
    forged = ticket(1, 4, "me", uid=65534)
    assert slot_order.turn(ticket(5, 1, "me", uid=ME), [forged], set()).ahead == (forged,)


GOOD = ticket(7.5, 2, "0123456789abcdef", owner="kim", controller="login2")


def test_a_ticket_reads_as_it_was_written() -> None:
    assert slot_order.read(slot_order.written(GOOD), ME) == GOOD._replace(uid=ME)


LONG = "x" * slot_order.MAX_TEXT


@pytest.mark.parametrize(
    "change",
    [
        {"time": 0},
        {"time": slot_order.MAX_TIME - 1},
        {"need": 1, "names": ["slot-0"]},
        {"need": 4},
        {"names": [f"slot-{n}" for n in range(slot_order.MAX_NAMES)]},
        {"token": LONG, "host": LONG, "run": LONG, "owner": LONG, "controller": LONG},
    ],
    ids=" ".join,
)
def test_the_least_and_the_most_of_a_ticket(change: dict[str, Any]) -> None:
    fields = {**json.loads(slot_order.written(GOOD)), **change}
    found = slot_order.read(json.dumps(fields).encode(), ME)
    assert found is not None
    assert all(
        getattr(found, name) in (value, tuple(value) if name == "names" else value) for name, value in change.items()
    )


@pytest.mark.parametrize(
    "change",
    [
        {"time": None},
        {"time": "now"},
        {"time": True},
        {"time": -1},
        {"time": float("nan")},
        {"time": float("inf")},
        {"time": 10**400},
        {"need": 0},
        {"need": 5},
        {"need": 1.5},
        {"need": True},
        {"need": 3, "names": ["slot-0", "slot-0", "slot-0"]},
        {"names": "slot-0"},
        {"names": [1, 2]},
        {"names": [f"slot-{n}" for n in range(slot_order.MAX_NAMES + 1)]},
        {"time": slot_order.MAX_TIME},
        {"run": LONG + "x"},
        {"owner": 7},
        {"controller": "a\x1b[2J"},
        {"token": ["x"]},
    ],
    ids=str,
)
def test_what_is_no_ticket_is_not_in_the_queue(change: dict[str, Any]) -> None:
    fields = {**json.loads(slot_order.written(GOOD)), **change}
    assert slot_order.read(json.dumps(fields).encode(), ME) is None


def test_a_ticket_that_is_too_long_is_not_in_the_queue() -> None:
    longest = slot_order.written(GOOD).ljust(slot_order.MAX_TICKET_BYTES)
    assert slot_order.read(longest, ME) == GOOD._replace(uid=ME)
    assert slot_order.read(longest + b" ", ME) is None


def test_a_ticket_that_no_process_holds_is_of_no_user() -> None:
    assert Ticket(7.5, "t", "h1", 1, ("slot-0",)).uid == -1


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"[" * 60000, b"7", b"[]", b"{}", b" " * (1 << 20), b"1" * 60000])
def test_garbage_is_not_in_the_queue(data: bytes) -> None:
    assert slot_order.read(data, ME) is None


def test_a_message_says_why_free_slots_are_not_taken_and_who_is_ahead() -> None:
    older = GOOD._replace(need=4, run="night")
    mine = ticket(9)
    found = slot_order.turn(mine, [older], set(ALL[:1]))
    assert slot_order.problem(mine, found) == (
        "3 of 4 slots free and 1 needed; reserved for runs that have waited longer"
    )
    assert slot_order.described(older) == "run night of kim from login2"
    (row,) = slot_order.rows(found.ahead, 67.5)
    assert row == {
        "token": "0123456789abcdef",
        "run": "night",
        "owner": "kim",
        "controller": "login2",
        "need": 4,
        "waiting_s": 60.0,
    }
    assert slot_order.rows([older], 0)[0]["waiting_s"] == 0, "a clock that went back"
    assert slot_order.rows([older], 8.8765)[0]["waiting_s"] == 1.4
