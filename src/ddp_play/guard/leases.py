"""Leases on what two runs must not share on one host (ports, slots): file locks, gone with their holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import socket
from pathlib import Path
from typing import IO, Any, Dict, List, Optional

from .census import guards
from .files import HostRun, read_json

# World-writable with the sticky bit, like /tmp: several users lease on one host.
LEASES = Path("/tmp/ddp-play-leases")


# How a guard says that it could not have its slots.
SLOTS_TAKEN = "slots taken"


def slot_leases() -> Path:
    """Where slots are leased: with the ports, unless this stands for a host of its own (DDP_PLAY_HOST_DIR)."""
    override = os.environ.get("DDP_PLAY_HOST_DIR")
    return Path(override, "leases") if override else LEASES


def hold(name: str, directory: Optional[Path] = None) -> Optional[IO[Any]]:
    """Take the lease `name`: the open file holds it. None when somebody else has it."""
    path = (directory or LEASES) / name
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o1777)
    try:
        fd = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        if os.fstat(fd).st_uid == os.geteuid():
            os.fchmod(fd, 0o666)  # whatever our umask: the next holder may be another user
    except PermissionError:  # another user's file in a sticky directory: read access is enough to lock
        fd = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    handle = os.fdopen(fd, "rb")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle


def hold_slots(names: List[str], need: int, directory: Path) -> List[IO[Any]]:
    """Take `need` of the slots, any of them; none is held when fewer are free."""
    held: List[IO[Any]] = []
    for name in names:
        if len(held) < need:
            handle = hold(name, directory)
            held += [handle] if handle is not None else []
    if len(held) == need:
        return held
    for handle in held:
        handle.close()
    return []


def slots_problem(names: List[str], need: int, directory: Path) -> str:
    """Why `need` of the slots cannot be had now, and who has them; empty when they can."""
    free, holders = 0, []
    for name in names:
        handle = hold(name, directory)
        if handle is not None:
            free += 1
            handle.close()
        else:
            holders.append(holder(directory / name))
    if free >= need:
        return ""
    who = ", ".join(sorted(set(holders)))
    return "%d of %d slots free and %d needed; held by %s" % (free, len(names), need, who)


def holder(path: Path) -> str:
    """`run calm-otter-1 of kim`: whose guard holds this lease, as the kernel and the guard's command line tell."""
    try:
        inode = path.stat().st_ino
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return "another run"
    for line in locks:
        words = line.split()
        if words[1:2] == ["FLOCK"] and len(words) > 5 and words[5].rpartition(":")[2] == str(inode):
            place = guards().get(int(words[4]))
            if place is not None:
                return "run %s of %s" % (place.run_id, owner(place, int(words[4])))
    return "another run"


def owner(place: HostRun, guard_pid: int) -> str:
    """Who started the run: by its spec where we may read it, else the user of its guard here."""
    told: Dict[str, Any] = read_json(place.spec) or {}
    if told.get("owner"):
        return str(told["owner"])
    try:
        return pwd.getpwuid(os.stat("/proc/%d" % guard_pid).st_uid).pw_name
    except (OSError, KeyError):
        return "another user"


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
        handle = hold("port-%d" % port)
        if handle is None:
            continue
        if port_free(port):
            return PortLease(port, handle)
        handle.close()
    return None


class PortLease:
    """A leased port; the guard takes the lease over before the channel lets go of it."""

    def __init__(self, port: int, handle: IO[Any]) -> None:
        self.port = port
        self.handle = handle
