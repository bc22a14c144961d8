"""Copy of a file of the site, made before a role changes or removes the file."""

from __future__ import annotations

import os
from typing import Any, Dict

from ansible_collections.ddp.play.plugins.module_utils import file_replacement, recorded_files
from ansible_collections.ddp.play.plugins.module_utils.file_changes import OWN_MARK


def keep_original(record: str, want: Dict[str, Any], *, check_mode: bool) -> bool:
    """Copy the site's file to the path of the original; True if that was done, or would be in check mode.

    A file that the site has put in place of the role's is newer than an original that is there already. Of texts
    without a mark or a record nobody can tell whose they are.
    """
    original = want["original"]
    if not original or not _is_theirs(record, want) or recorded_files.stays(record, want):
        return False
    is_newer = want["state"] == "absent" or want["recorded"] or OWN_MARK in want["content"]
    if os.path.lexists(original) and not is_newer:
        return False
    if not check_mode:
        file_replacement.keep_copy(want["path"], original)
    return True


def _is_theirs(record: str, want: Dict[str, Any]) -> bool:
    marked = OWN_MARK in (recorded_files.read_text(want["path"]) or "")
    ours = recorded_files.is_ours(record, want) if want["recorded"] else marked
    return os.path.lexists(want["path"]) and not ours
