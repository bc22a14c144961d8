#!/usr/bin/python
"""Write lines of mount points into fstab, and give back the lines that were there before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import changes, file_replacement, host_record, mount_lines
from ansible_collections.ddp.play.plugins.module_utils.mount_lines import is_for

DOCUMENTATION = r"""
module: fstab
short_description: Write lines into fstab without mounting, and give back what was there
description:
  - C(present) gives each mount point its line and leaves every other line as it is, byte for byte. Nothing is mounted,
    unmounted or remounted. What was there for the mount point is recorded on the host, also if it reads like a line
    of the role. Only the record proves that a line is the role's.
  - C(absent) removes the lines of the record and writes what they replaced. A line that somebody changed since then
    stays, and is returned in I(kept). A line without a record is the site's and stays. Lines that were there before
    are returned in I(given_back); nothing is mounted for them.
options:
  role:
    description: Name of the role, as in M(ddp.play.host_record).
    type: str
    required: true
  lines:
    description: C(mountpoint), and for C(present) the whole C(line) without its newline.
    type: list
    elements: dict
    required: true
    suboptions:
      mountpoint:
        description: The second field, unescaped.
        type: path
        required: true
      line:
        description: The line.
        type: str
        default: ""
  state:
    description: Write the lines or remove them.
    type: str
    choices: [present, absent]
    default: present
  path:
    description: The file.
    type: path
    default: /etc/fstab
  record:
    description: The file of the record.
    type: path
    default: /etc/ddp-play/record.json
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Configure | Write the lines of the mounts
  ddp.play.fstab:
    role: nfs_client
    lines:
      - {mountpoint: /srv/ddp, line: "storage1:/srv/ddp /srv/ddp nfs hard,nofail 0 0"}
"""

RETURN = r"""
kept:
  description: Mount points whose line somebody changed; it was not removed.
  returned: always
  type: list
  elements: str
given_back:
  description: Lines without their newlines that C(absent) has written in place of the role's.
  returned: always
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

LINE = re.compile(r"[^\n]*\n|[^\n]+")
Row = Dict[str, Any]  # of the record: `line` that the role wrote, `before` (lines), `joined` (no newline before it)


def with_line(lines: List[str], mountpoint: str, line: str) -> Tuple[List[str], Row]:
    """The lines with this one for the mount point, in place of the first that was there, and what was there."""
    there = [number for number, text in enumerate(lines) if is_for(text, mountpoint)]
    row = {"line": line, "before": [lines[number] for number in there], "joined": False}
    if not there:
        row["joined"] = bool(lines) and not lines[-1].endswith("\n")
        return [text if text.endswith("\n") else text + "\n" for text in lines] + [line + "\n"], row
    kept = [text for number, text in enumerate(lines) if number not in there[1:]]
    kept[there[0]] = line + "\n"
    return kept, row


def without_line(lines: List[str], mountpoint: str, row: Row) -> List[str]:
    """The lines with what the row recorded in place of its line."""
    found: List[str] = []
    for text in lines:
        found += list(row["before"]) if is_for(text, mountpoint) else [text]
    if row["joined"] and lines and is_for(lines[-1], mountpoint) and found:
        found[-1] = found[-1].rstrip("\n")
    return found


def put(lines: List[str], want: Row, recorded: Dict[str, Row]) -> List[str]:
    """The lines with a wanted one; records what was there unless the record says that the role wrote it."""
    mountpoint, line = want["mountpoint"], want["line"]
    if [text.rstrip("\n") for text in lines if is_for(text, mountpoint)] == [line]:
        return lines
    after, row = with_line(lines, mountpoint, line)
    recorded[mountpoint] = dict(recorded.get(mountpoint, row), line=line)
    return after


def take(lines: List[str], mountpoint: str, recorded: Dict[str, Row], kept: List[str]) -> List[str]:
    """The lines without the role's line for a mount point; adds the mount point to `kept` if it is not the role's."""
    row = recorded.pop(mountpoint, None)
    if row is None:
        return lines
    there = [text.rstrip("\n") for text in lines if is_for(text, mountpoint)]
    if there and there != [row["line"]]:
        kept.append(mountpoint)
        return lines
    return without_line(lines, mountpoint, row)


def save(want: Dict[str, Any], recorded: Dict[str, Row]) -> None:
    """Keep the rows of the role in the record, if they differ from those that are there."""
    record = host_record.load(want["record"])
    entries = record.get(want["role"], {})
    if entries.get(mount_lines.KEY, {}) != recorded:
        others = {key: value for key, value in entries.items() if key != mount_lines.KEY}
        entries = dict(others, **{mount_lines.KEY: recorded}) if recorded else others
        host_record.save(want["record"], dict(record, **{want["role"]: entries}))


def rows_of(before: List[str], after: List[str], wanted: List[Row], path: str) -> List[changes.Change]:
    """What happens to the line of each mount point."""
    found = []
    for mountpoint in (want["mountpoint"] for want in wanted):
        old, new = ([text for text in lines if is_for(text, mountpoint)] for lines in (before, after))
        if old != new:
            kind = changes.CHANGE if old and new else changes.ADD if new else changes.REMOVE
            whose = changes.THEIRS if old else changes.NEW
            found.append(changes.change(kind, "line of %s in %s" % (mountpoint, path), whose))
    return found


def given_back(before: List[str], after: List[str], mountpoints: List[str]) -> List[str]:
    """The lines of mount points that have other lines than before, as text."""
    found: List[str] = []
    for mountpoint in mountpoints:
        old, new = ([text for text in lines if is_for(text, mountpoint)] for lines in (before, after))
        found += [text.rstrip("\n") for text in new if new != old]
    return [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in found]


def main() -> None:
    """Write or remove the lines of one role."""
    line = {"mountpoint": {"type": "path", "required": True}, "line": {"type": "str", "default": ""}}
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "lines": {"type": "list", "elements": "dict", "required": True, "options": line},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "path": {"type": "path", "default": "/etc/fstab"},
            "record": {"type": "path", "default": host_record.RECORD},
        },
        supports_check_mode=True,
    )
    want = module.params
    path = Path(want["path"])
    before = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
    lines = there = LINE.findall(before)
    recorded: Dict[str, Row] = dict(host_record.load(want["record"]).get(want["role"], {}).get(mount_lines.KEY, {}))
    kept: List[str] = []
    for row in want["lines"]:
        if want["state"] == "present":
            lines = put(lines, row, recorded)
        else:
            lines = take(lines, row["mountpoint"], recorded, kept)
    after = "".join(lines)
    # An interruption between the two must not lose what was there: the record comes first, and goes last.
    if not module.check_mode:
        if want["state"] == "present":
            save(want, recorded)
        if after != before:
            content = after.encode("utf-8", "surrogateescape")
            file_replacement.replace_file(want["path"], content, move=module.atomic_move)
        if want["state"] == "absent":
            save(want, recorded)
    back = given_back(there, lines, [row["mountpoint"] for row in want["lines"]]) if want["state"] == "absent" else []
    rows = rows_of(there, lines, want["lines"], want["path"])
    module.exit_json(changed=after != before, kept=kept, given_back=back, ddp_changes=rows)


if __name__ == "__main__":
    main()
