"""Order of the runs that wait for slots of one host: older tickets reserve free slots. Pure.

Why by ticket and how tickets are numbered: docs/decisions/0007-waiting-by-ticket.md.
"""

from __future__ import annotations

import json
from typing import Any, Collection, Dict, List, NamedTuple, Optional, Set, Tuple

from .protocol import CONTROL

MAX_TICKET_BYTES = 64 << 10
MAX_NAMES = 1024
MAX_TEXT = 255
# Largest number that is compared as a time; JSON may hold larger ones, and infinite ones.
MAX_TIME = 2.0**53


class Ticket(NamedTuple):
    """A run that waits for `need` of the slots `names` of a host. `uid`: user of its process, from the kernel.

    `time`: when it began to wait, in epoch seconds. The run has the same `time` and `token` on all its hosts.
    """

    time: float
    token: str
    host: str
    need: int
    names: Tuple[str, ...]
    run: str = ""
    owner: str = ""
    controller: str = ""
    uid: int = -1

    @property
    def place(self) -> Tuple[float, str, str]:
        """What tickets are ordered by. Two inventory hosts on one machine have a ticket each."""
        return self.time, self.token, self.host


class Turn(NamedTuple):
    """Whether a run may take its slots now. `ahead`: other runs with older tickets for these slots, oldest first."""

    ready: bool
    num_free: int
    ahead: Tuple[Ticket, ...]


def turn(mine: Ticket, tickets: Collection[Ticket], held: Set[str]) -> Turn:
    """Decide whether slots are left for `mine`. `held`: names of slots that a guard holds.

    Each older ticket reserves as many free slots as it needs, or all that it could use where fewer are free.
    """
    older = sorted((ticket for ticket in tickets if ticket.place < mine.place), key=lambda ticket: ticket.place)
    left = set(mine.names).union(*(ticket.names for ticket in older)) - held
    num_free = len(left.intersection(mine.names))
    for ticket in older:
        usable = sorted(left.intersection(ticket.names), key=lambda name: (name in mine.names, name))
        left.difference_update(usable[: ticket.need])
    ahead = tuple(
        ticket for ticket in older if not _same_run(ticket, mine) and not set(ticket.names).isdisjoint(mine.names)
    )
    return Turn(len(left.intersection(mine.names)) >= mine.need, num_free, ahead)


def _same_run(ticket: Ticket, mine: Ticket) -> bool:
    return (ticket.token, ticket.uid) == (mine.token, mine.uid)


def written(ticket: Ticket) -> bytes:
    """What a ticket's holder answers; `read` reads it."""
    fields = {name: value for name, value in ticket._asdict().items() if name != "uid"}
    return json.dumps(fields, separators=(",", ":")).encode()


def read(data: bytes, uid: int) -> Optional[Ticket]:
    """The ticket that a process of user `uid` holds; None for anything else, which is not in the queue."""
    try:
        value = json.loads(data) if len(data) <= MAX_TICKET_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not _has_times(value) or not _has_slots(value):
        return None
    texts = {name: value.get(name, "") for name in ("token", "host", "run", "owner", "controller")}
    if not all(_is_text(text) for text in texts.values()):
        return None
    return Ticket(time=float(value["time"]), need=value["need"], names=tuple(value["names"]), uid=uid, **texts)


def _has_times(value: Dict[str, Any]) -> bool:
    time = value.get("time")
    return isinstance(time, (int, float)) and not isinstance(time, bool) and 0 <= time < MAX_TIME


def _has_slots(value: Dict[str, Any]) -> bool:
    """Whether it needs at least one slot, and no more than it names: others would wait for it forever."""
    need, names = value.get("need"), value.get("names")
    if not isinstance(names, list) or not all(_is_text(name) for name in names) or len(names) > MAX_NAMES:
        return False
    return isinstance(need, int) and not isinstance(need, bool) and 1 <= need <= len(set(names))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and not CONTROL.search(value)


def described(ticket: Ticket) -> str:
    """`run night of kim from login2`."""
    origin = " from %s" % ticket.controller if ticket.controller else ""
    return "run %s of %s%s" % (ticket.run, ticket.owner, origin)


def problem(mine: Ticket, found: Turn) -> str:
    """Why free slots are not for this run."""
    return "%d of %d slots free and %d needed; reserved for runs that have waited longer" % (
        found.num_free,
        len(mine.names),
        mine.need,
    )


def rows(ahead: Collection[Ticket], now: float) -> List[Dict[str, Any]]:
    """The runs ahead as the controller gets them. `now`: this host's clock."""
    return [
        {
            "token": ticket.token,
            "run": ticket.run,
            "owner": ticket.owner,
            "controller": ticket.controller,
            "need": ticket.need,
            "waiting_s": round(max(0.0, now - ticket.time), 1),
        }
        for ticket in ahead
    ]
