"""Queue of runs that wait for slots of this host. A run's place in it is a ticket: an abstract socket, like a lease.

The channel of a waiting run holds its ticket, so the ticket disappears with the controller or the connection. Whoever
connects to a ticket gets its content. Tickets of other users are read with limits: a ticket that is not valid, or whose
process does not answer in time, is not in the queue (docs/decisions/0007-waiting-by-ticket.md).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from . import host_drain, leases, slot_order
from .peer_credentials import peer_of
from .protocol import split_run_key
from .refusal import Refused
from .slot_order import Ticket, Turn

TICKET = "ticket-"
# Tickets read on one host, and the time for all their answers. More tickets than that have no order.
MAX_TICKETS = 200
ANSWERS_WITHIN_S = 1.0
READ_SIZE = 16384


class QueuePlace:
    """Place of one run in the queue of this host."""

    def __init__(self) -> None:
        self._lease: Optional[leases.Lease] = None
        self._known: Tuple[Set[str], str] = set(), ""  # held slots, and the message about their holders

    def look(self, ticket: Optional[Ticket]) -> Dict[str, Any]:
        """Keep the ticket, and answer whether it is its turn. Without a ticket: this host's clock.

        Raises Refused on a host in quarantine, and OSError.
        """
        if ticket is None:
            return {"clock": time.time(), "ready": False}
        host_drain.refuse_quarantined()
        self._keep(ticket)
        scope = leases.slot_scope()
        bound = leases.bound_names()
        held = _held(scope, bound)
        found = slot_order.turn(ticket, read_tickets(scope, bound), held)
        drained = host_drain.problem()
        return {
            "clock": time.time(),
            "ready": found.ready and not drained,
            "problem": drained or ("" if found.ready else self._problem(ticket, found, held)),
            "ahead": slot_order.rows(found.ahead, time.time()),
        }

    def _keep(self, ticket: Ticket) -> None:
        """Hold the ticket. While an earlier channel of this run still has it, that one counts."""
        if self._lease is None and ticket.need:
            import hashlib

            name = TICKET + "%s-%s" % (ticket.token, hashlib.sha256(ticket.host.encode()).hexdigest()[:8])
            lease = leases.hold(name, leases.slot_scope())
            self._lease = lease.answer(slot_order.written(ticket)) if lease is not None else None

    def _problem(self, ticket: Ticket, found: Turn, held: Set[str]) -> str:
        if found.num_free >= ticket.need:
            return slot_order.problem(ticket, found)
        known, text = self._known
        if known != held or not text:  # finding the holders reads all of /proc
            text = leases.slots_problem(list(ticket.names), ticket.need, leases.slot_scope())
            self._known = held, text
        return text or "slots were taken and freed a moment ago"

    def leave(self) -> None:
        """Give the ticket back: the run has its slots."""
        if self._lease is not None:
            self._lease.close()
            self._lease = None


def ticket_of(fields: Dict[str, Any], key: str) -> Optional[Ticket]:
    """The ticket that the controller requests for the run with this key; None before it has a time."""
    if fields.get("time") is None:
        return None
    run, token = split_run_key(key)
    return Ticket(
        time=float(fields["time"]),
        token=token,
        host=str(fields["host"]),
        need=int(fields["need"]),
        names=tuple(fields["names"]),
        run=run,
        owner=str(fields.get("owner") or ""),
        controller=str(fields.get("controller") or ""),
        uid=os.geteuid(),
    )


def check_slots(wanted: Dict[str, Any]) -> None:
    """Raise Refused with the holders if the run's slots are not free. Takes no lease: the guard does."""
    why = leases.slots_problem(wanted.get("names", []), wanted.get("need", 0), leases.slot_scope())
    if why:
        raise Refused(
            why,
            kind="slots",
            hint="the same command with --wait waits for them; ddp-play ps -i INVENTORY lists who runs there",
        )


def check_reservations(wanted: Dict[str, Any]) -> None:
    """Raise Refused if the slots of a run without a ticket are free, but reserved for runs that wait for them."""
    names, need = tuple(wanted.get("names", ())), int(wanted.get("need", 0))
    newcomer = Ticket(time=float("inf"), token="", host="", need=need, names=names, uid=os.geteuid())
    scope = leases.slot_scope()
    bound = leases.bound_names()
    tickets = read_tickets(scope, bound)
    found = slot_order.turn(newcomer, tickets, _held(scope, bound)) if tickets else None
    if found is not None and not found.ready and found.ahead:
        who = slot_order.described(found.ahead[0])
        raise Refused(
            "%s: first %s" % (slot_order.problem(newcomer, found), who),
            kind="slots",
            hint="the same command with --wait joins the queue; ddp-play ps -i INVENTORY lists who runs there",
        )


def _held(scope: str, bound: Set[str]) -> Set[str]:
    """Names that are held on this host, among them those of slots."""
    prefix = "@%s/" % scope
    return {name[len(prefix) :] for name in bound if name.startswith(prefix)}


def read_tickets(scope: str, bound: Set[str]) -> List[Ticket]:
    """The valid tickets on this host whose holders answer in time. `bound`: all names of abstract sockets."""
    prefix = "@%s/%s" % (scope, TICKET)
    names = sorted(name for name in bound if name.startswith(prefix))[:MAX_TICKETS]
    with contextlib.ExitStack() as opened:
        users = {opened.enter_context(sock): uid for sock, uid in map(_connected, names) if sock is not None}
        found = [slot_order.read(data, users[sock]) for sock, data in _answers(list(users))]
    return [row._replace(owner=leases.named_owner(row.owner, row.uid)) for row in found if row is not None]


def _connected(name: str) -> Tuple[Optional[socket.socket], int]:
    """A connection to a ticket's holder, and its user according to the kernel."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect("\0" + name[1:])
        uid = peer_of(sock).uid
    except (OSError, ValueError):
        sock.close()
        return None, -1
    return sock, uid


def _answers(sockets: List[socket.socket]) -> Iterator[Tuple[socket.socket, bytes]]:
    """Each complete answer. Longer ones and those that come too late are left out."""
    until = time.monotonic() + ANSWERS_WITHIN_S
    received = dict.fromkeys(sockets, b"")
    with selectors.DefaultSelector() as selector:
        for connected in sockets:
            selector.register(connected, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < until:
            for key, _ in selector.select(max(0.0, until - time.monotonic())):
                sock: Any = key.fileobj
                data = _received(sock)
                received[sock] += data or b""
                if data is None or len(received[sock]) > slot_order.MAX_TICKET_BYTES:
                    selector.unregister(sock)
                    yield sock, received[sock]


def _received(sock: socket.socket) -> Optional[bytes]:
    """What has arrived; None at the end."""
    try:
        return sock.recv(READ_SIZE) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
