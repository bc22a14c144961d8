"""Passwords for ansible-playbook, in files that exist while it runs."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def password_files(*, connection: str, become: str, vault: str) -> Iterator[list[str]]:
    """Options for ansible-playbook with files of the passwords: in memory, mode 0600, removed at the end."""
    wanted = {
        "--connection-password-file": connection,
        "--become-password-file": become,
        "--vault-password-file": vault,
    }
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - the files are in a new directory of mode 0700
    if not any(wanted.values()):
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="ddp-play-", dir=base) as directory:
        options = []
        for number, (option, value) in enumerate(wanted.items()):
            if value:
                path = Path(directory, str(number))
                path.touch(mode=0o600)
                path.write_text(value + "\n", encoding="utf-8")
                options += [option, str(path)]
        yield options
