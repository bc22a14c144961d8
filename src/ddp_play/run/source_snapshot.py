"""Snapshot of the job's source tree: archive, hash of the content and manifest."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import io
import mmap
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.bundle.disk_space import is_full
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.planning.job import Job


@dataclass(frozen=True, slots=True)
class Member:
    """Where a file is in an archive: start of its headers, of its content, and the end of that, in bytes."""

    name: str
    start: int
    content: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tar archive of the tree, the hash of its content, its manifest {path: (size in bytes, mtime)}, its members.

    The archive is a file without a name, which ends with this object. `warning`: that it is large.
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
    """Read a snapshot from its archive. OSError or tarfile.TarError if the file cannot be read."""
    with path.open("rb") as file:
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with tarfile.open(fileobj=file) as tar:
            rows = tar.getmembers()
    manifest = {info.name: (info.size, float(info.mtime)) for info in rows}
    members = tuple(
        Member(info.name, info.offset, info.offset_data, _end(info.offset_data, info.size)) for info in rows
    )
    return Snapshot(archive, digest, manifest, members)


def take_snapshot(job: Job, directory: Path | None = None) -> Snapshot:
    """Read the tree of `job.source`; the archive needs space in `directory`, by default that of temporary files.

    UsageError if the tree is missing or empty, or does not fit. A warning if it is larger than `source_max_mib`.
    """
    root = Path(job.source)
    if not root.is_dir():
        raise UsageError(f"ddp_job_source: {root} is not a directory", hint="set it to the directory of the script")
    files = sorted(set(_files(root, job)))
    if not files:
        raise UsageError(
            f"ddp_job_source: no files to copy in {root}", hint="check ddp_job_source_include and _exclude"
        )
    sizes = _sizes(root, files)
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


def _pack(root: Path, files: list[Path], where: Path) -> Snapshot:
    digest, manifest, members = hashlib.sha256(), {}, []
    with (
        tempfile.TemporaryFile(dir=where) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in files:
            info, content = _entry(tar, path, root)
            start = tar.offset
            tar.addfile(info, io.BytesIO(content))
            size = _end(0, len(content))
            members.append(Member(info.name, start, tar.offset - size, tar.offset))
            digest.update(os.fsencode(f"{info.name}\0{info.mode:o}\0{len(content)}\0{info.linkname}\0"))
            digest.update(content)
            manifest[info.name] = (len(content), float(info.mtime))
        tar.close()
        file.flush()
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Snapshot(archive, digest.hexdigest(), manifest, tuple(members))


def _end(content: int, size: int) -> int:
    """End of a content in an archive, which fills blocks."""
    return content + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _entry(tar: tarfile.TarFile, path: Path, root: Path) -> tuple[tarfile.TarInfo, bytes]:
    """Tar header and content of a file. A symbolic link stays a link; each hard link becomes a file."""
    try:
        info = tar.gettarinfo(str(path), arcname=str(path.relative_to(root)))
        content = b"" if info.issym() else path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"ddp_job_source: cannot read {path}: {error.strerror}",
            hint="make it readable or add it to ddp_job_source_exclude",
        ) from None
    if not info.issym():
        info.type, info.linkname = tarfile.REGTYPE, ""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.size = len(content)
    return info, content


def _files(root: Path, job: Job) -> Iterator[Path]:
    starts = [root / name for name in job.source_include] or [root]
    for start in starts:
        if not start.exists():
            raise UsageError(f"ddp_job_source_include: {start} does not exist")
        if start.is_file():
            yield start
        for where, directories, names in os.walk(start):
            directories[:] = [d for d in directories if not _excluded(Path(where, d), root, job.source_exclude)]
            links = [
                d for d in directories if Path(where, d).is_symlink()
            ]  # os.walk does not follow them; they are stored as links
            for name in (*names, *links):
                path = Path(where, name)
                if not _excluded(path, root, job.source_exclude) and (path.is_file() or path.is_symlink()):
                    yield path


def _excluded(path: Path, root: Path, patterns: tuple[str, ...]) -> bool:
    relative = str(path.relative_to(root))
    return any(fnmatch.fnmatch(path.name, pattern) or fnmatch.fnmatch(relative, pattern) for pattern in patterns)


def _sizes(root: Path, files: list[Path]) -> dict[str, int]:
    """Bytes in each entry of the tree's top."""
    sizes: dict[str, int] = {}
    for path in files:
        top = path.relative_to(root).parts[0]
        sizes[top] = sizes.get(top, 0) + path.lstat().st_size
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
