"""Source of the run on this host: unpacked from the snapshot, or by another host on the shared directory."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, Tuple

from .attempt_directories import make_dir
from .protocol import SOURCE_HEADER
from .rank_user import User, acting_as, owners
from .refusal import Refused
from .untrusted_paths import LIST, create_file, directory, locate
from .withdrawal import Withdrawn, withdrawn_refusal

if TYPE_CHECKING:
    from .run_directory import HostRun

CHUNK_BYTES = 1 << 20
# Of a file's mode: what the ranks' user may do, but others may not write, and no set-uid.
MODES = 0o755
NO_NAMES = frozenset({b"", b".", b".."})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack_source(place: HostRun, spec: Dict[str, Any], withdrawn: Withdrawn = lambda: False) -> None:
    """Unpack the snapshot of the source, or wait until another host has unpacked it or the order is withdrawn."""
    source = spec["source"]
    archive = place.source_archive
    if source["role"] == "none":
        return
    target = Path(source["path"])
    marker = target.parent / (".complete-" + source["digest"])
    if source["role"] == "wait":
        _wait_for(marker, target, float(source["wait_s"]), withdrawn)
        return
    if os.path.lexists(str(marker)):  # by an earlier attempt, whose working directory this one continues
        return
    if not archive.exists():
        raise Refused("the source of the run is no longer at %s" % target, hint="start a new run")
    user = spec.get("user")
    make_dir(target, 0o700, user)
    with open(str(archive), "rb", buffering=CHUNK_BYTES) as packed, directory(locate(target), owners(user)) as top:
        _extract(packed, top, user)
    archive.unlink()
    create_file(locate(marker), b"", owners(user))


def _extract(packed: IO[bytes], top: int, user: User) -> None:
    """Create the files of an archive in an open directory, with the rights of the ranks' user.

    Raises Refused if it is no archive, and OSError.
    """
    with acting_as(user), contextlib.closing(_Tree(top)) as tree:
        while header := packed.read(SOURCE_HEADER.size):
            if len(header) != SOURCE_HEADER.size:
                raise _cut_off()
            name_size, link_size, mode, size, mtime_ns = SOURCE_HEADER.unpack(header)
            path = _read(packed, name_size)
            if path.endswith(b"/") and not link_size + size:  # a directory without files
                tree.go(path[:-1])
                continue
            name = tree.enter(path)
            if link_size:
                tree.link(name, _read(packed, link_size))
            else:
                tree.write(name, packed, size, (mode & MODES, mtime_ns))


class _Tree:
    """Files below an open directory. No link is followed there: the ranks' user may put some into it meanwhile."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._where = b""
        self._inside = os.dup(top)

    def enter(self, path: bytes) -> bytes:
        """Go to the directory of a path, and create it if need be; the last component. Files come by directory."""
        where, _, name = path.rpartition(b"/")
        if where != self._where:
            self.go(where)
        return _component(name, path)

    def go(self, where: bytes) -> None:
        """Go to a directory, and create it if need be."""
        fd = os.dup(self._top)
        for part in where.split(b"/") if where else ():
            outer = fd
            try:
                fd = _directory(outer, _component(part, where))
            finally:
                os.close(outer)
        os.close(self._inside)
        self._where, self._inside = where, fd

    def write(self, name: bytes, packed: IO[bytes], size: int, meta: Tuple[int, int]) -> None:
        """Create a file with the next `size` bytes; `meta`: mode and mtime in nanoseconds."""
        mode, mtime_ns = meta
        fd = self._create(lambda: os.open(name, _NEW, 0o600, dir_fd=self._inside), name)
        try:
            for start in range(0, size, CHUNK_BYTES):
                data = memoryview(_read(packed, min(CHUNK_BYTES, size - start)))
                while data:
                    data = data[os.write(fd, data) :]
            os.fchmod(fd, mode)
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(fd)

    def link(self, name: bytes, target: bytes) -> None:
        """Create a symbolic link."""
        self._create(lambda: os.symlink(target, name, dir_fd=self._inside), name)

    def close(self) -> None:
        """Close the current directory."""
        os.close(self._inside)

    def _create(self, create: Callable[[], Any], name: bytes) -> Any:
        try:
            return create()
        except FileExistsError:  # of a preparation that was interrupted
            os.unlink(name, dir_fd=self._inside)
            return create()


def _component(name: bytes, path: bytes) -> bytes:
    if name in NO_NAMES:
        raise Refused("cannot prepare: the source has a file with the path %r" % os.fsdecode(path), kind="internal")
    return name


def _directory(fd: int, name: bytes) -> int:
    """Descriptor of a directory in an open one; it is created if need be."""
    try:
        return os.open(name, LIST, dir_fd=fd)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=fd)
    inner = os.open(name, LIST, dir_fd=fd)
    os.fchmod(inner, 0o755)  # whatever the umask is: the top of the tree says who may enter
    return inner


def _read(packed: IO[bytes], size: int) -> bytes:
    data = packed.read(size)
    if len(data) != size:
        raise _cut_off()
    return data


def _cut_off() -> Refused:
    return Refused("cannot prepare: the archive of the source ends within a file", kind="internal")


def _wait_for(marker: Path, target: Path, wait_s: float, withdrawn: Withdrawn) -> None:
    """Wait for the marker of a complete tree: `wait_s` until it is seen that the tree is made, then to its end.

    How long that takes depends on the disk and the files. If it fails, the controller withdraws the order.
    """
    deadline = time.monotonic() + wait_s
    while not marker.exists():
        if time.monotonic() > deadline and not target.exists():
            raise Refused(
                "the staged source did not appear at %s within %.0f s" % (marker.parent, wait_s),
                hint="findmnt on each host shows whether the shared directory is the same file system",
            )
        if withdrawn():
            raise withdrawn_refusal()
        if marker.parent.is_dir():
            os.listdir(str(marker.parent))  # makes an NFS client refresh its cache
        time.sleep(0.05)
