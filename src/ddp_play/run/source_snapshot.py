"""Snapshot of the job's source tree: archive, hash of the content and manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import mmap
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.bundle.disk_space import is_full
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import SOURCE_HEADER
from ddp_play.run.source_files import list_files, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    The archive (protocol.SOURCE_HEADER) is a file without a name, which ends with this object. `warning`: its size.
    """

    archive: bytes | mmap.mmap
    digest: str
    manifest: dict[str, tuple[int, float]]
    members: tuple[Member, ...] = ()
    warning: str = ""

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
        manifest[name] = (size, mtime_ns / 1e9)
        members.append(Member(name, at, content, content + size))
        at = content + size
    return Snapshot(archive, digest, manifest, tuple(members))


def take_snapshot(job: Job, directory: Path | None = None) -> Snapshot:
    """Read the tree of `job.source`; the archive needs space in `directory`, by default that of temporary files.

    UsageError if the tree is missing or empty, or does not fit. A warning if it is larger than `source_max_mib`.
    """
    root, files = Path(job.source), files_to_copy(job)
    sizes = _sizes(files)
    where = directory or Path(tempfile.gettempdir())
    if sum(sizes.values()) > shutil.disk_usage(where).free:
        raise _no_space(root, sizes, where)
    try:
        packed = _pack(root, files, where)
    except OSError as error:
        if not is_full(error):
            raise
        raise _no_space(root, sizes, where) from None
    return dataclasses.replace(packed, warning=_size_warning(root, sizes, job.source_max_mib))


def files_to_copy(job: Job) -> dict[str, int]:
    """Size in bytes of each file of `job.source` that hosts get. UsageError if the tree is missing or empty."""
    root = Path(job.source)
    if not root.is_dir():
        raise UsageError(
            f"ddp_job_source: {root} is not a directory",
            hint="set ddp_job_source to the directory of the script; a relative path counts from the playbook",
        )
    files = list_files(root, job)
    if not files:
        raise UsageError(
            f"ddp_job_source: no files to copy in {root}",
            hint="put the script there, or correct ddp_job_source_include and ddp_job_source_exclude",
        )
    return files


def _pack(root: Path, names: Iterable[str], where: Path) -> Snapshot:
    digest, manifest, members, at = hashlib.sha256(), {}, [], 0
    with tempfile.TemporaryFile(dir=where, buffering=WRITE_BYTES) as file:
        for name in names:
            found = read_file(f"{root}/{name}")
            encoded, size = os.fsencode(name), len(found.content)
            header = SOURCE_HEADER.pack(len(encoded), len(found.link), found.mode, size, found.mtime_ns)
            file.write(header + encoded + found.link)
            file.write(found.content)
            digest.update(b"%b\0%o\0%d\0%b\0" % (encoded, found.mode, size, found.link))
            digest.update(found.content)
            manifest[name] = (size, found.mtime_ns / 1e9)
            content = at + len(header) + len(encoded) + len(found.link)
            members.append(Member(name, at, content, content + size))
            at = content + size
        file.flush()
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Snapshot(archive, digest.hexdigest(), manifest, tuple(members))


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
