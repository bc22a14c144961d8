"""Lines of fstab: how a path is written there, and which lines a role has written on a host by its record."""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Sequence

KEY = "fstab"  # of a role's entries in the record: by mount point `line`, which it wrote, and what was there before
WRITTEN = "written"  # of a mount: the line that the role has written for it; without one the mount is the site's
ESCAPES = {"\\": "\\134", " ": "\\040", "\t": "\\011", "\n": "\\012"}
OCTAL = re.compile(r"\\([0-7]{3})")


class Line(NamedTuple):
    """A line without its newline, and its fields; the mount point unescaped."""

    text: str
    source: str
    mountpoint: str
    fstype: str
    options: List[str]


def escaped(path: str) -> str:
    """A path as a field of fstab."""
    return "".join(ESCAPES.get(letter, letter) for letter in path)


def unescaped(field: str) -> str:
    """A field of fstab as a path."""
    return OCTAL.sub(lambda octal: chr(int(octal[1], 8)), field)


def is_for(line: str, mountpoint: str) -> bool:
    """Whether a line mounts something there."""
    fields = line.split()
    return len(fields) > 1 and not fields[0].startswith("#") and fields[1] == escaped(mountpoint)


def with_written(mounts: Sequence[Mapping[str, Any]], entries: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The mounts, with WRITTEN where a role has written a line for the mount point, by its entries in the record."""
    rows = entries.get(KEY, {})
    return [{**mount, **_written(rows.get(mount["mountpoint"], {}))} for mount in mounts]


def _written(row: Mapping[str, Any]) -> Dict[str, str]:
    return {WRITTEN: row["line"]} if row else {}


def is_as_written(mount: Mapping[str, Any], fstab: str) -> bool:
    """Whether the only line for the mount point is the one that the role has written. fstab: its text."""
    there = [line for line in fstab.split("\n") if is_for(line, mount["mountpoint"])]
    return WRITTEN in mount and there == [mount[WRITTEN]]


def recorded_beyond(entries: Mapping[str, Any], mountpoints: Collection[str]) -> List[Line]:
    """Lines that a role has written for other mount points than these, by its entries in the record of the host."""
    rows = entries.get(KEY, {})
    return [parsed(rows[path]["line"]) for path in sorted(rows) if path not in mountpoints]


def parsed(text: str) -> Line:
    """A line for a mount point, with the defaults of mount for a type and options that it does not have."""
    fields = text.split()[:4]
    source, mountpoint, fstype, options = fields + ["", "", "auto", "defaults"][len(fields) :]
    return Line(text, unescaped(source), unescaped(mountpoint), fstype, options.split(","))
