"""Rows of the listing for what ddp.play.files does to one path: read before the change, made after it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List

from ansible_collections.ddp.play.plugins.module_utils import changes, host_record, recorded_files

OWN_MARK = "Managed by ddp-play"
# Names of files without a mark: ddp-ipoib, 60-ddp-rdma.conf, daemon.json.ddp-play.orig, keys.
OWN_NAME = re.compile(r"\bddp\b")


class FileBefore:
    """State of a path before the change: who made what is there, and whether its original was kept."""

    def __init__(self, want: Dict[str, Any], text: str, record: str) -> None:
        """Read the path of one entry of ddp.play.files; `text` is the text of the file, `record` the host's record."""
        self.want = want
        self.owner = self._owner(Path(want["path"]), text, record)
        self.has_original = bool(want["original"]) and os.path.lexists(want["original"])

    def _owner(self, path: Path, text: str, record: str) -> str:
        if not os.path.lexists(path):
            return str(changes.NEW)
        if path.is_dir() and not path.is_symlink():
            ours = bool(host_record.made_here(record, str(path)))
        else:
            ours = path.parent == Path(record).parent or bool(OWN_NAME.search(path.name)) or OWN_MARK in text
            ours = ours or recorded_files.is_ours(record, self.want)
        return str(changes.OURS if ours else changes.THEIRS)

    def rows(self, changed: bool, kept: bool) -> List[Dict[str, str]]:
        """What happens to the path, and to the copy of its original, if that is made now (`kept`)."""
        want = self.want
        copy = [changes.change(changes.ADD, "file " + want["original"], changes.NEW)] if kept else []
        if not changed:
            return copy
        kind, owner = changes.ADD if self.owner == changes.NEW else changes.CHANGE, self.owner
        if want["state"] == "absent":
            kind = changes.REMOVE
        elif want["state"] == "restored" and not self.has_original:  # nothing was there before the role
            kind, owner = changes.REMOVE, changes.OURS
        what = "directory " if want["state"] == "directory" else "file "
        return [changes.change(kind, what + want["path"], owner), *copy]
