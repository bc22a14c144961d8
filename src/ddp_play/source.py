"""The snapshot of the job's source tree: what ran is always known."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.job import Job


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An archive of the tree, its content hash, and its manifest {path: (size in bytes, mtime)}."""

    archive: bytes
    digest: str
    manifest: dict[str, tuple[int, float]]

    @property
    def num_files(self) -> int:
        """How many files it holds."""
        return len(self.manifest)


def take_snapshot(job: Job) -> Snapshot:
    """Read the tree of `job.source`. UsageError when it is not there, empty, or larger than the cap."""
    root = Path(job.source)
    if not root.is_dir():
        raise UsageError(f"ddp_job_source: {root} is not a directory", hint="give the directory that holds the script")
    files = sorted(_files(root, job))
    if not files:
        raise UsageError(
            f"ddp_job_source: nothing to take from {root}", hint="check ddp_job_source_include and _exclude"
        )
    _check_cap(root, files, job.source_max_mib)
    digest, manifest, buffer = hashlib.sha256(), {}, io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files:
            relative = str(path.relative_to(root))
            info = tar.gettarinfo(str(path), arcname=relative)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            content = path.read_bytes() if info.isreg() else b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
            digest.update(f"{relative}\0{info.mode:o}\0{len(content)}\0{info.linkname}\0".encode())
            digest.update(content)
            manifest[relative] = (len(content), float(info.mtime))
    return Snapshot(buffer.getvalue(), digest.hexdigest(), manifest)


def _files(root: Path, job: Job) -> Iterator[Path]:
    starts = [root / name for name in job.source_include] or [root]
    for start in starts:
        if not start.exists():
            raise UsageError(f"ddp_job_source_include: {start} does not exist")
        if start.is_file():
            yield start
        for where, directories, names in os.walk(start):
            directories[:] = [d for d in directories if not _excluded(Path(where, d), root, job.source_exclude)]
            for name in names:
                path = Path(where, name)
                if not _excluded(path, root, job.source_exclude) and (path.is_file() or path.is_symlink()):
                    yield path


def _excluded(path: Path, root: Path, patterns: tuple[str, ...]) -> bool:
    relative = str(path.relative_to(root))
    return any(fnmatch.fnmatch(path.name, pattern) or fnmatch.fnmatch(relative, pattern) for pattern in patterns)


def _check_cap(root: Path, files: list[Path], cap_mib: int) -> None:
    total = sum(path.lstat().st_size for path in files)
    if total <= cap_mib * 1024 * 1024:
        return
    sizes: dict[str, int] = {}
    for path in files:
        top = path.relative_to(root).parts[0]
        sizes[top] = sizes.get(top, 0) + path.lstat().st_size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
    shown = ", ".join(f"{name} {size / 1048576:.0f} MiB" for name, size in largest)
    raise UsageError(
        f"ddp_job_source: {root} holds {total / 1048576:.0f} MiB, the cap is {cap_mib} MiB; largest: {shown}",
        hint="name what is not code in ddp_job_source_exclude (data belongs on the shared directory), "
        "or raise ddp_job_source_max_mib",
    )
