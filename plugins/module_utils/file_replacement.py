"""Replacement and copy of a file in one step: readers see the old content or the new one, never a part of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Callable, Optional


def replace_file(
    path: str, content: bytes, *, mode: Optional[int] = None, move: Callable[[str, str], None] = os.replace
) -> None:
    """Write the content to the disk and move it to `path`. Raises OSError, and what `move` raises.

    With AnsibleModule.atomic_move as `move`, an existing file keeps its owner, its SELinux context and, without a
    `mode`, its mode. The folder must exist.
    """
    handle, temporary = tempfile.mkstemp(prefix=".ddp-play-", dir=str(Path(path).parent))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is None:
            move(temporary, path)
        else:
            _move_with_mode(temporary, path, mode, move)
    finally:
        if Path(temporary).exists():
            Path(temporary).unlink()


def _move_with_mode(temporary: str, path: str, mode: int, move: Callable[[str, str], None]) -> None:
    """Move a file so that it has this mode whatever the umask is.

    atomic_move gives it the mode of an existing file, or for a new one 0666 less the umask: a private key would be
    readable by all for a moment.
    """
    Path(temporary).chmod(mode)
    umask = os.umask(0o777 & ~mode)
    try:
        move(temporary, path)
    finally:
        os.umask(umask)
    Path(path).chmod(mode)


def keep_copy(path: str, kept: str) -> None:
    """Copy a file to where it can be moved back from, as `copy` does, but in one step."""
    part = kept + ".part"
    copy(path, part)
    Path(part).replace(kept)


def copy(source: str, target: str) -> None:
    """Copy content, mode, times and owner; never readable by more than the source on the way. A link stays a link."""
    info = os.lstat(source)
    if Path(source).is_symlink():
        shutil.copyfile(source, target, follow_symlinks=False)
    else:
        content = Path(source).read_bytes()
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
    os.chown(target, info.st_uid, info.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)
