"""Snapshot of the job's source tree: archive, hash of the content and manifest."""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ddp_play.bundle.disk_space import is_full
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import SOURCE_HEADER
from ddp_play.run.source_files import SourceFile, is_directory, list_files, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddp_play.planning.job import Job

WRITE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """Where a file is in an archive: start of its header, of its content, and the end of that, in bytes."""

    name: str
    start: int
    content: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An archive of the tree, the hash of its content, its manifest {path: (size in bytes, mtime)}, its members.

    The archive (protocol.SOURCE_HEADER) is a file without a name, which ends with this object.
    """

    archive: bytes | mmap.mmap
    digest: str
    manifest: dict[str, tuple[int, float]]
    members: tuple[Member, ...] = ()

    @property
    def num_files(self) -> int:
        """Number of files."""
        return len(self.manifest)


def read_snapshot(path: Path, digest: str) -> Snapshot:
    """Read a snapshot from its archive. OSError or struct.error if the file cannot be read."""
    with path.open("rb") as file:
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    manifest, members, at = {}, [], 0
    while at < len(archive):
        name_size, link_size, _, size, mtime_ns = SOURCE_HEADER.unpack_from(archive, at)
        names = at + SOURCE_HEADER.size
        content = names + name_size + link_size
        name = os.fsdecode(archive[names : names + name_size])
        if not is_directory(name):
            manifest[name] = (size, mtime_ns / 1e9)
        members.append(Member(name, at, content, content + size))
        at = content + size
    return Snapshot(archive, digest, manifest, tuple(members))


def take_snapshot(job: Job, directory: Path | None = None, *, warn: Callable[[str], object] | None = None) -> Snapshot:
    """Read the tree of `job.source`; the archive needs space in `directory`, by default that of temporary files.

    UsageError if the tree is missing or empty, or does not fit. `warn` is called before the files are read, if they
    are larger than `source_max_mib`.
    """
    root, files = Path(job.source), files_to_copy(job)
    sizes = _sizes(files)
    where = directory or Path(tempfile.gettempdir())
    if sum(sizes.values()) > shutil.disk_usage(where).free:
        raise _no_space(root, sizes, where)
    if warn is not None and (warning := _size_warning(root, sizes, job.source_max_mib)):
        warn(warning)
    try:
        return _pack(root, files, where)
    except OSError as error:
        if not is_full(error):
            raise
        raise _no_space(root, sizes, where) from None


def files_to_copy(job: Job) -> dict[str, int]:
    """Size in bytes of each file of `job.source` that hosts get, as `list_files` names them.

    UsageError if the tree is missing or has no files.
    """
    root = Path(job.source)
    if not root.is_dir():
        raise UsageError(
            f"ddp_job_source: {root} is not a directory",
            hint="set ddp_job_source to the directory of the script; a relative path counts from the playbook",
        )
    files = list_files(root, job)
    if all(map(is_directory, files)):
        raise UsageError(
            f"ddp_job_source: no files to copy in {root}",
            hint="put the script there, or correct ddp_job_source_include and ddp_job_source_exclude",
        )
    return files


def _pack(root: Path, names: Iterable[str], where: Path) -> Snapshot:
    with tempfile.TemporaryFile(dir=where, buffering=WRITE_BYTES) as file:
        packer = _Packer(file)
        for name in names:
            packer.add(root, name)
        file.flush()
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Snapshot(archive, packer.digest.hexdigest(), packer.manifest, tuple(packer.members))


class _Packer:
    """Writes an archive, file by file, and keeps what a snapshot says of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.manifest: dict[str, tuple[int, float]] = {}
        self.members: list[Member] = []

    def add(self, root: Path, name: str) -> None:
        """Append a file, a link, or a directory without files."""
        if is_directory(name):
            self._begin(name, SourceFile(0, 0, b"", 0))
            return
        before, tries = self.digest.copy(), 0

        def begin(found: SourceFile) -> Callable[[bytes], object]:
            nonlocal tries
            if tries:  # the file is read again: what the archive has of it goes
                self.digest = before.copy()
                self._file.seek(self.members.pop().start)
                self._file.truncate()
            tries += 1
            self._begin(name, found)
            self.manifest[name] = (found.size, found.mtime_ns / 1e9)
            return self._take

        read_file(f"{root}/{name}", begin)

    def _begin(self, name: str, found: SourceFile) -> None:
        encoded = os.fsencode(name)
        header = SOURCE_HEADER.pack(len(encoded), len(found.link), found.mode, found.size, found.mtime_ns)
        self._file.write(header + encoded + found.link)
        self.digest.update(b"%b\0%o\0%d\0%b\0" % (encoded, found.mode, found.size, found.link))
        start = self.members[-1].end if self.members else 0
        content = start + len(header) + len(encoded) + len(found.link)
        self.members.append(Member(name, start, content, content + found.size))

    def _take(self, part: bytes) -> None:
        self._file.write(part)
        self.digest.update(part)


def _sizes(files: dict[str, int]) -> dict[str, int]:
    """Bytes in each entry of the tree's top."""
    sizes: dict[str, int] = {}
    for name, size in files.items():
        top = name.partition("/")[0]
        sizes[top] = sizes.get(top, 0) + size
    return sizes


def _size_warning(root: Path, sizes: dict[str, int], max_mib: int) -> str:
    if sum(sizes.values()) <= max_mib << 20:
        return ""
    return (
        f"ddp_job_source: {_shown(root, sizes)}; each host gets a copy: exclude data with ddp_job_source_exclude "
        f"(put it on the shared directory), or raise ddp_job_source_max_mib ({max_mib})"
    )


def _no_space(root: Path, sizes: dict[str, int], where: Path) -> UsageError:
    free = shutil.disk_usage(where).free
    return UsageError(
        f"ddp_job_source: {_shown(root, sizes)}, more than the {free >> 20} MiB that are free in {where}",
        hint="exclude data with ddp_job_source_exclude, or free space",
    )


def _shown(root: Path, sizes: dict[str, int]) -> str:
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
    shown = ", ".join(f"{name} {size / 1048576:.0f} MiB" for name, size in largest)
    return f"{root} holds {sum(sizes.values()) / 1048576:.0f} MiB; largest: {shown}"
