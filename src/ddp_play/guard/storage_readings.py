"""Readings of disks and directories for `ddp-play check`, and the tokens that show whether a directory is shared."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, List

from . import state_directory

POLL_S = 0.1
MAX_TOKEN = 256


def space(path: str) -> Dict[str, Any]:
    """Size and free space of the file system of a path in MiB, and its inodes (0: it does not count them)."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return {
        "size_mib": found.f_blocks * found.f_frsize >> 20,
        "free_mib": found.f_bavail * found.f_frsize >> 20,
        "inodes": found.f_files,
        "free_inodes": found.f_favail,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        "mount": state_directory.mount_of(path).kind,
    }


def write_probe(path: str) -> Dict[str, Any]:
    """Write a file, have it reach the disk, read and remove it. The problem is empty if all of that works."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    name = os.path.join(path, ".ddp-play-check-%s" % os.urandom(8).hex())
    word = os.urandom(16)
    began = time.monotonic()
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, word)
            os.fsync(fd)
            same = os.pread(fd, 64, 0) == word
        finally:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(name)
    except OSError as error:
        return {"problem": error.strerror or str(error), "took_s": 0.0}
    took_s = round(time.monotonic() - began, 3)
    return {"problem": "" if same else "it returns other bytes than were written", "took_s": took_s}


def write_token(path: str, word: str, host: str) -> Dict[str, Any]:
    """Write this host's token into the shared directory; answer what the mount is."""
    name = token_path(path, word, host)
    mount = state_directory.mount_of(path)
    found = {"mount": mount.kind, "source": mount.source}  # `server:/export` of NFS, the device of a disk
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "w") as file:
            file.write("%s %s" % (word, host))
            file.flush()
            os.fsync(file.fileno())
        owner = os.stat(name).st_uid
    except OSError as error:
        return {"problem": error.strerror or str(error), **found}
    return {"problem": "", **found, "owner": owner, "user": os.geteuid()}


def see_tokens(path: str, word: str, hosts: List[str], limit_s: float) -> Dict[str, Any]:
    """For each of the other hosts, seconds until its token was seen here (None: not within the limit)."""
    began = time.monotonic()
    seen: Dict[str, Any] = dict.fromkeys(hosts)
    while True:
        os.listdir(path)  # has an NFS client ask the server for the entries again
        for host in hosts:
            if seen[host] is None and _holds(token_path(path, word, host), word):
                seen[host] = round(time.monotonic() - began, 3)
        if None not in seen.values() or time.monotonic() - began > limit_s:
            return {"seen": seen}
        time.sleep(POLL_S)


def remove_token(path: str, word: str, host: str) -> str:
    """Remove this host's own token; answer why it is still there, if it is."""
    try:
        os.unlink(token_path(path, word, host))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def token_path(path: str, word: str, host: str) -> str:
    """The file of a host's token. `word` is random, so nobody else has files of this name."""
    return os.path.join(path, ".ddp-play-check-%s-%s" % (word, host.encode("utf-8", "surrogateescape").hex()[:128]))


def _holds(path: str, word: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(fd, MAX_TOKEN).startswith(word.encode())
    except OSError:
        return False
    finally:
        os.close(fd)
