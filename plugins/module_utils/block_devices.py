"""Whether a block device is empty, carries a file system of ours, or belongs to others; no I/O here."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Tuple

OURS, EMPTY, REFUSED = "ours", "empty", "refused"
HEAD_BYTES = 1 << 20
Answers = Mapping[str, Mapping[str, Any]]  # by the names of `commands`: rc, stdout


def commands(device: str) -> Dict[str, List[str]]:
    """Commands that read a device: what uses it, its signatures, and whether its first MiB is empty."""
    return {
        "tree": ["lsblk", "--json", "--paths", "--output", "NAME,TYPE,RO,MOUNTPOINTS", device],
        "signatures": ["wipefs", "--no-act", "--json", device],
        "head": ["cmp", "--bytes=%d" % HEAD_BYTES, device, "/dev/zero"],
    }


def judge(answers: Answers, fstype: str, label: str) -> Tuple[str, str]:
    """OURS (file system and label are the wanted ones), EMPTY, or REFUSED with the reason.

    A device is empty without partitions, users, mounts and signatures, and with nothing but zeros in its first MiB.
    """
    rows = _rows(answers["tree"], "blockdevices")
    if len(rows) != 1 or answers["signatures"]["rc"] != 0:
        return REFUSED, "is not a block device of this host"
    signatures = [(found["type"], found.get("label") or "") for found in _rows(answers["signatures"], "signatures")]
    used = _used(rows[0])
    if signatures == [(fstype, label)] and not used:
        return OURS, ""
    reason = used or _content(answers, signatures)
    return (REFUSED, reason) if reason else (EMPTY, "")


def _used(row: Mapping[str, Any]) -> str:
    children = ["%s (%s)" % (child["name"], child["type"]) for child in row.get("children", [])]
    return "has partitions or belongs to others: %s" % ", ".join(children) if children else ""


def _content(answers: Answers, signatures: List[Tuple[str, str]]) -> str:
    """Why a device that is not ours is not empty."""
    (row,) = _rows(answers["tree"], "blockdevices")
    if signatures:
        return "carries %s" % ", ".join(" ".join(filter(None, found)) for found in signatures)
    if mounts(answers):
        return "is mounted at %s" % ", ".join(mounts(answers))
    if row["ro"] in (True, "1"):
        return "is read-only"
    if answers["head"]["rc"] != 0:
        return "has data without a signature in its first MiB (blkdiscard or dd empties it)"
    return ""


def mounts(answers: Answers) -> List[str]:
    """Where the device itself is mounted."""
    return [path for row in _rows(answers["tree"], "blockdevices") for path in row["mountpoints"] if path]


def kernel_name(answers: Answers) -> str:
    """The device behind all its names, such as /dev/nvme0n1; empty if there is none."""
    return "".join(row["name"] for row in _rows(answers["tree"], "blockdevices")[:1])


def _rows(answer: Mapping[str, Any], key: str) -> List[Dict[str, Any]]:
    """Rows of a program's JSON, which prints nothing where there are none."""
    if answer["rc"] != 0:
        return []
    rows: List[Dict[str, Any]] = json.loads(answer["stdout"] or "{}").get(key, [])
    return rows
