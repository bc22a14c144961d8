"""Leases on what two runs must not share on one host (ports, slots): abstract sockets, gone with their holder.

A name without a file: nothing to follow, to own or to leave behind, and no user can keep another one out of a
directory (docs/decisions/0004-leases-without-files.md). Whoever listens at a name has the lease.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

from .run_files import HostRun, read_json, user_name
from .running_guards import guards

# The first part of every name. Abstract names belong to a network namespace, as ports do.
SCOPE = "ddp-play"

# How a guard says that it could not have its slots.
SLOTS_TAKEN = "slots taken"
SILENT = "a process that does not answer (see: ss -xap | grep %s)"
HOLDERS_SHOWN = 5
# Between two calls: whoever calls all the time must not cost the guard more than this allows.
ANSWER_S = 0.01


def slot_scope() -> str:
    """Where slots are leased: with the ports, unless this stands for a host of its own (DDP_PLAY_HOST_DIR)."""
    override = os.environ.get("DDP_PLAY_HOST_DIR")
    if not override:
        return SCOPE
    return "%s/%s" % (SCOPE, hashlib.sha256(os.fsencode(os.path.realpath(override))).hexdigest()[:16])


def _address(name: str, scope: str) -> str:
    return "\0%s/%s" % (scope or SCOPE, name)


class Lease:
    """A name that is ours until closed."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._answering: Optional[threading.Thread] = None

    def answer(self) -> "Lease":
        """Take the calls of those who ask who we are: their queue is short, and a guard holds for days."""
        self._answering = threading.Thread(target=self._answer, daemon=True)
        self._answering.start()
        return self

    def _answer(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                self._sock.accept()[0].close()
                time.sleep(ANSWER_S)

    def close(self) -> None:
        """Give it back."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the thread: the name is taken as long as it waits
        if self._answering is not None:
            self._answering.join()
        self._sock.close()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def hold(name: str, scope: str = "") -> Optional[Lease]:
    """Take the lease `name`. None when somebody else has it."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(_address(name, scope))
        sock.listen(socket.SOMAXCONN)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return Lease(sock)


def hold_slots(names: List[str], need: int, scope: str) -> List[Lease]:
    """Take `need` of the slots, any of them; none is held when fewer are free."""
    held: List[Lease] = []
    for name in names:
        if len(held) < need:
            lease = hold(name, scope)
            held += [lease] if lease is not None else []
    if len(held) == need:
        return held
    for lease in held:
        lease.close()
    return []


def slots_problem(names: List[str], need: int, scope: str) -> str:
    """Why `need` of the slots cannot be had now, and who has them; empty when they can. Takes none."""
    holders = [who for who in (holder(name, scope) for name in names) if who]
    free = len(names) - len(holders)
    if free >= need:
        return ""
    return "%d of %d slots free and %d needed; held by %s" % (free, len(names), need, _listed(holders))


def _listed(holders: List[str]) -> str:
    who = sorted(set(holders))
    more = ["%d more" % (len(who) - HOLDERS_SHOWN)] if len(who) > HOLDERS_SHOWN else []
    return ", ".join(who[:HOLDERS_SHOWN] + more)


def holder(name: str, scope: str = "") -> str:
    """`run calm-otter-1 of kim`: who has this lease, as the kernel says; empty when it is free."""
    address = _address(name, scope)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # the queue of a holder that does not answer may be full
        try:
            sock.connect(address)
            pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:  # nobody listens; or somebody has the name and does not listen, or has no room for us
            return SILENT % SCOPE if "@" + address[1:] in _bound() else ""
    place = guards().get(pid)
    if place is not None:
        return "run %s of %s" % (place.run_id, owner(place, uid))
    return "process %d of %s" % (pid, user_name(uid)) if pid else "a process of %s" % user_name(uid)


def _bound() -> Set[str]:
    """Every name of this network namespace; an abstract one begins with @."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.split(None, 7)[7] for line in lines[1:] if len(line.split(None, 7)) > 7}


def owner(place: HostRun, uid: int) -> str:
    """Who started the run: by its spec where we may read it, else the user of its guard here.

    A command line says what its process likes: only a spec of the same user counts.
    """
    told: Dict[str, Any] = {}
    with contextlib.suppress(OSError):
        told = (read_json(place.spec) or {}) if place.spec.stat().st_uid == uid else {}
    return str(told["owner"]) if told.get("owner") else user_name(uid)


def port_free(port: int) -> bool:
    """Can this port be bound on all addresses, both families?"""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((address, port))
                sock.listen(1)
        except OSError as error:
            if error.errno in (97, 99):  # no IPv6 here
                continue
            return False
    return True


def takes_effect(name: str) -> bool:
    """Is what the lease stands for still there to be used? A port may be taken by who knows nothing of leases."""
    return not name.startswith("port-") or port_free(int(name[len("port-") :]))


def lease_port(first: int, last: int, avoid: List[int]) -> Optional["PortLease"]:
    """The first port of the range that is neither leased nor in use; None when there is none."""
    for port in range(first, last + 1):
        if port in avoid:
            continue
        lease = hold("port-%d" % port)
        if lease is None:
            continue
        if port_free(port):
            return PortLease(port, lease)
        lease.close()
    return None


def ports_problem(first: int, last: int) -> str:
    """Why no port of the range can be had, and who leases them."""
    holders = [who for who in (holder("port-%d" % port) for port in range(first, last + 1)) if who]
    leased = "; %d leased by %s" % (len(holders), _listed(holders)) if holders else ""
    return "no free port between %d and %d%s" % (first, last, leased)


class PortLease:
    """A leased port; the guard takes the lease over before the channel lets go of it."""

    def __init__(self, port: int, handle: Lease) -> None:
        self.port = port
        self.handle = handle
