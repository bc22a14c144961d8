"""Backups that shadow-utils keep of the account files: copied before the first change of an account, and given back.

Every change of an account rewrites group and leaves the old text as group-. When a role takes its change back, group
is as before, but group- is not. A backup returns only if its account file has the text that it had then.
"""

from __future__ import annotations

import filecmp
import shutil
from typing import TYPE_CHECKING, List

from ansible_collections.ddp.play.plugins.module_utils.file_replacement import copy

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")


def keep(folder: Path, etc: Path) -> None:
    """Copy the account files and their backups, with owners and modes, into a directory for root."""
    if folder.exists():
        return
    part = folder.with_suffix(".part")
    if part.exists():
        shutil.rmtree(str(part))
    part.mkdir(mode=0o700, parents=True)
    for path in (etc / name for plain in NAMES for name in (plain, plain + "-")):
        if path.is_file():
            copy(str(path.resolve()), str(part / path.name))  # the text, also of a link
    part.rename(folder)


def give_back(folder: Path, etc: Path) -> List[str]:
    """Restore the backups of account files that are as they were, and remove the directory; names of the restored."""
    restored = []
    for name in NAMES if folder.is_dir() else ():
        kept, backup = folder / name, etc / (name + "-")
        if not (kept.is_file() and (etc / name).is_file() and filecmp.cmp(str(kept), str(etc / name), shallow=False)):
            continue
        if (folder / backup.name).is_file():
            if not same(folder / backup.name, backup):
                copy(str(folder / backup.name), str(etc / (name + "-.ddp-play")))
                (etc / (name + "-.ddp-play")).replace(backup)
                restored.append(backup.name)
        elif backup.is_file():
            backup.unlink()
            restored.append(backup.name)
    if folder.is_dir():
        shutil.rmtree(str(folder))
    return restored


def same(one: Path, other: Path) -> bool:
    """Whether two files have the same text."""
    return other.is_file() and filecmp.cmp(str(one), str(other), shallow=False)
