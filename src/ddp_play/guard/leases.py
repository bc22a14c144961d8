"""Port and slot leases of one host: abstract Unix sockets, which disappear with the process that holds them.

An abstract name has no file, so there are no links, no owners and no leftovers, and no user can lock others out of a
directory (docs/decisions/0004-leases-without-files.md). The process that listens on a name holds the lease. Names are
the same in all versions: any process that holds one counts, also one of an unknown version.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Union

from . import file_leases, port_holders
from .guard_files import Claim, read_specs
from .peer_credentials import Peer, peer_of
from .run_directory import user_name
from .running_guards import guards
from .state_directory import OF_HOST

# First part of every name. Abstract names are per network namespace, as ports are.
SCOPE = "ddp-play"

# Name that a check has while it holds slots, with its pid: who holds them is told by it.
CHECK = "check-%d"

# Reason in the state of a guard that did not get its slots.
SLOTS_TAKEN = "slots taken"
SILENT = "a process that does not answer (see: ss -xap | grep %s)"
FILE_LOCKED = "a process that locks %s as earlier versions of ddp-play do"
HOLDERS_SHOWN = 5
# Pause between two accepted connections, which limits the CPU time that a busy client can cost the guard.
ANSWER_S = 0.01
# Time for the message of a holder, and the most that is read of it.
MESSAGE_S, MESSAGE_BYTES = 1.0, 1024


def slot_scope() -> str:
    """Scope of slot names: that of the ports, or one per DDP_PLAY_HOST_DIR, which stands for a host."""
    override = os.environ.get(OF_HOST)
    if not override:
        return SCOPE
    import hashlib

    return "%s/%s" % (SCOPE, hashlib.sha256(os.fsencode(os.path.realpath(override))).hexdigest()[:16])


def _address(name: str, scope: str) -> str:
    return "\0%s/%s" % (scope or SCOPE, name)


class Lease:
    """A name that this process holds until `close`."""

    def __init__(self, sock: socket.socket, file: Optional[int] = None) -> None:
        """`file`: descriptor of the locked file that an earlier version looks at."""
        self._sock = sock
        self._file = file
        self._answering: Optional[threading.Thread] = None

    def answer(self, message: bytes = b"") -> "Lease":
        """Accept connections in a thread, such as those of `holder`, and send each the message.

        The queue of connections is short, and a guard may hold a lease for days.
        """
        self._answering = threading.Thread(target=self._answer, args=(message,), daemon=True)
        self._answering.start()
        return self

    def _answer(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection = self._sock.accept()[0]
                with connection, contextlib.suppress(OSError):  # the other end is gone
                    connection.setblocking(False)  # the message fits into an empty buffer
                    connection.send(message)
                time.sleep(ANSWER_S)

    def close(self) -> None:
        """Release the lease."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the thread, which would keep the name
        if self._answering is not None:
            self._answering.join()
        self._sock.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def hold(name: str, scope: str = "") -> Optional[Lease]:
    """Take the lease `name`; None if another process holds it. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(_address(name, scope))
        sock.listen(socket.SOMAXCONN)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    try:
        return Lease(sock, file_leases.lock(name))
    except file_leases.LockedError:
        sock.close()
        return None


def hold_slots(names: List[str], need: int, scope: str) -> List[Lease]:
    """Take any `need` of the slots; an empty list, and no lease, if fewer are free."""
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
    """Why `need` slots are not free, with the holders; empty if they are. Takes no lease."""
    found = holders(names, scope)
    free = len(names) - len(found)
    if free >= need:
        return ""
    return "%d of %d slots free and %d needed; held by %s" % (free, len(names), need, _listed(found))


def _listed(holders: List[str]) -> str:
    who = sorted(set(holders))
    more = ["%d more" % (len(who) - HOLDERS_SHOWN)] if len(who) > HOLDERS_SHOWN else []
    return ", ".join(who[:HOLDERS_SHOWN] + more)


def holder(name: str, scope: str = "") -> str:
    """Holder of a lease according to the kernel: `run calm-otter-1 of kim`; empty if it is free."""
    return next(iter(holders([name], scope)), "")


def holders(names: List[str], scope: str = "") -> List[str]:
    """Holder of each of these leases that is held."""
    found = [_held_by(name, scope) for name in names]
    known = described({who for who in found if isinstance(who, Peer)})
    for who in known:
        if listener(CHECK % who.pid, scope) == who:
            known[who] = "ddp-play check of %s" % user_name(who.uid)
    return [known[who] if isinstance(who, Peer) else who for who in found if who]


def _held_by(name: str, scope: str) -> Union[Peer, str]:
    """Process that holds a lease, or words for one that the kernel does not show; empty if it is free."""
    peer = listener(name, scope)
    if peer is not None:
        return peer
    return SILENT % SCOPE if "@" + _address(name, scope)[1:] in bound_names() else _file_holder(name)


def listener(name: str, scope: str = "") -> Optional[Peer]:
    """Who listens on a lease's name; None without a listener, or if its queue is full."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # the queue of the holder may be full
        try:
            sock.connect(_address(name, scope))
            return peer_of(sock)
        except OSError:
            return None


def message_of(name: str, scope: str = "") -> bytes:
    """What the holder of a lease sends to who connects (`Lease.answer`); empty if it sends nothing at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(MESSAGE_S)
        try:
            sock.connect(_address(name, scope))
            return sock.recv(MESSAGE_BYTES)
        except OSError:
            return b""


def _file_holder(name: str) -> Union[Peer, str]:
    """Holder of a lease of an earlier version; empty if it is free."""
    if not file_leases.is_locked(name):
        return ""
    pid = file_leases.holder_pid(name)
    try:
        return Peer(pid, os.stat("/proc/%d" % pid).st_uid)
    except OSError:
        return FILE_LOCKED % (file_leases.directory_of(name) / name)


def described(peers: Set[Peer]) -> Dict[Peer, str]:
    """Processes in words. The owner of a run is from its spec if that is readable, else the user of its guard."""
    places = guards() if peers else {}
    # a process can choose its command line, so the spec must belong to the same user
    claims = {peer: Claim(places[peer.pid], peer.uid) for peer in peers if peer.pid in places}
    specs, words = read_specs(claims.values()), {}
    for peer in peers - set(claims):
        words[peer] = "%s of %s" % ("process %d" % peer.pid if peer.pid else "a process", user_name(peer.uid))
    for peer, claim in claims.items():
        owner = named_owner(str(specs[claim].get("owner") or ""), peer.uid)
        words[peer] = "run %s of %s" % (claim.place.run_id, owner)
    return words


def bound_names() -> Set[str]:
    """All Unix socket names of this network namespace; abstract ones begin with @."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.split(None, 7)[7] for line in lines[1:] if len(line.split(None, 7)) > 7}


def named_owner(claimed: str, uid: int) -> str:
    """The owner that a process of user `uid` claims; another user is named first: `pat (as kim)`.

    Root holds the leases of all controllers with become, and this user those of all that log in as this user.
    """
    user = user_name(uid)
    if claimed in ("", user):
        return user
    return claimed if uid in (0, os.geteuid()) else "%s (as %s)" % (user, claimed)


def port_free(port: int) -> bool:
    """Whether this port can be bound on all IPv4 and IPv6 addresses."""
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


def lost(name: str, lease: Optional[Lease]) -> str:
    """Name of an unusable lease, and its holder if that is another process."""
    return name if lease is not None else "%s by %s" % (name, holder(name) or "another run")


def takes_effect(name: str) -> bool:
    """Whether the leased resource is usable: another program may use the port without a lease."""
    return not name.startswith("port-") or port_free(int(name[len("port-") :]))


def lease_port(first: int, last: int, avoid: List[int]) -> Optional["PortLease"]:
    """Lease the first port from `first` to `last` that is neither leased nor in use; None if there is none."""
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
    """Message that no port of the range is free, with the holders of the leases."""
    found = holders(["port-%d" % port for port in range(first, last + 1)])
    leased = "; %d leased by %s" % (len(found), _listed(found)) if found else ""
    used = port_holders.described(range(first, last + 1))
    return "no free port between %d and %d%s%s" % (first, last, leased, "; in use: %s" % used if used else "")


class PortLease:
    """A leased port. The channel releases it just before the guard takes the lease."""

    def __init__(self, port: int, handle: Lease) -> None:
        self.port = port
        self.handle = handle
