"""Record of the texts that ddp.play.files wrote into files without a mark, which tells them from files of the site."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible_collections.ddp.play.plugins.module_utils import host_record

FILES = "files"  # in the record: by path, the checksums of the texts that were written there


def read_text(path: str) -> Optional[str]:
    """The text of a regular file; None if there is no such file."""
    if not Path(path).is_file() or Path(path).is_symlink():
        return None
    return Path(path).read_bytes().decode("utf-8", "replace")


def checksum(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def written(record: str, path: str) -> List[str]:
    """Checksums of the texts that were written to this path."""
    return list(host_record.load(record).get(FILES, {}).get(path, []))


def note(record: str, path: str, text: str) -> None:
    """Record a text before it is written. Earlier ones stay in the record: the writing may be cut off."""
    known = written(record, path)
    if checksum(text) not in known:
        _save(record, path, sorted([*known, checksum(text)]))


def forget(record: str, path: str) -> None:
    """Remove a file from the record."""
    if written(record, path):
        _save(record, path, [])


def is_ours(record: str, want: Dict[str, Any]) -> bool:
    """Whether the file of an entry of ddp.play.files has a text that was written there, as the record proves.

    Versions before this record have proof only if a role made the directory for the file: it has the wanted text then.
    """
    text = read_text(want["path"])
    if not want.get("recorded") or text is None:
        return False
    made = host_record.made_here(record, str(Path(want["path"]).parent))
    return (made and text == want["content"]) or checksum(text) in written(record, want["path"])


def stays(record: str, want: Dict[str, Any]) -> bool:
    """Whether an entry with `recorded` leaves a file of the site alone: at a removal, or if the text is right."""
    if not want.get("recorded") or not os.path.lexists(want["path"]) or is_ours(record, want):
        return False
    return want["state"] == "restored" or (want["state"] == "present" and _reads(want["path"], want["content"]))


def _reads(path: str, text: str) -> bool:
    """Whether this is the text of the file, or of that which a link points to."""
    return Path(path).is_file() and Path(path).read_bytes() == text.encode()


def _save(record: str, path: str, checksums: List[str]) -> None:
    found = host_record.load(record)
    files = {**found.get(FILES, {}), path: checksums}
    host_record.save(record, {**found, FILES: {name: rows for name, rows in files.items() if rows}})
