"""Source of the run on this host: unpacked from the snapshot, or by another host on the shared directory."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, Iterator

from .attempt_directories import make_dir
from .protocol import WITHDRAWN
from .rank_user import User, acting_as, owners
from .refusal import Refused
from .untrusted_paths import create_file, directory, locate

if TYPE_CHECKING:
    from .run_directory import HostRun


def unpack_source(place: HostRun, spec: Dict[str, Any], withdrawn: Callable[[], bool] = lambda: False) -> None:
    """Unpack the snapshot of the source, or wait until another host has unpacked it or the order is withdrawn."""
    source = spec["source"]
    archive = place.source_archive
    if source["role"] == "none":
        return
    target = Path(source["path"])
    marker = target.parent / (".complete-" + source["digest"])
    if source["role"] == "wait":
        _wait_for(marker, float(source["wait_s"]), withdrawn)
        return
    if os.path.lexists(str(marker)):  # by an earlier attempt, whose working directory this one continues
        return
    if not archive.exists():
        raise Refused("the source of the run is no longer at %s" % target, hint="start a new run")
    user = spec.get("user")
    make_dir(target, 0o700, user)
    with _going_back(), open(str(archive), "rb") as packed, directory(locate(target), owners(user)) as inside:
        _extract(packed, inside, user)
    archive.unlink()
    create_file(locate(marker), b"", owners(user))


@contextlib.contextmanager
def _going_back() -> Iterator[None]:
    """Return to the working directory afterwards; the ranks' user may not be allowed to enter it (/root)."""
    before = os.open(".", os.O_PATH | os.O_CLOEXEC)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def _extract(packed: IO[bytes], directory_fd: int, user: User) -> None:
    """Unpack with the rights of the ranks' user, who may put links into the directory meanwhile."""
    import tarfile

    try:
        with acting_as(user), tarfile.open(fileobj=packed) as tar:
            os.fchdir(directory_fd)
            if hasattr(tarfile, "data_filter"):
                tar.extractall(".", filter="tar")  # a trusted archive: its links may point outside
            else:  # Python 3.9 of EL9 before the back-port of filters
                tar.extractall(".")
    except tarfile.TarError as error:
        raise Refused("cannot prepare: the source is no archive: %s" % error) from error


def _wait_for(marker: Path, wait_s: float, withdrawn: Callable[[], bool]) -> None:
    deadline = time.monotonic() + wait_s
    while not marker.exists():
        if time.monotonic() > deadline:
            raise Refused(
                "the staged source did not appear at %s within %.0f s" % (marker.parent, wait_s),
                hint="findmnt on each host shows whether the shared directory is the same file system",
            )
        if withdrawn():
            raise Refused("the preparation was withdrawn", kind=WITHDRAWN)
        if marker.parent.is_dir():
            os.listdir(str(marker.parent))  # makes an NFS client refresh its cache
        time.sleep(0.05)
