#!/usr/bin/python
"""Write, create or remove several files of one role in one execution."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import (
    file_originals,
    file_replacement,
    file_validation,
    host_record,
    recorded_files,
)
from ansible_collections.ddp.play.plugins.module_utils.file_changes import FileBefore
from ansible_collections.ddp.play.plugins.module_utils.recorded_files import read_text

DOCUMENTATION = r"""
module: files
short_description: Set the state of several files in one execution
description:
  - Like M(ansible.builtin.copy) with C(content), for a list. All files are validated before the first is written.
  - Parent directories that are missing are created with mode 0755 and recorded on the host. When the last file in a
    recorded directory is removed, the directory is removed too.
options:
  files:
    type: list
    elements: dict
    required: true
    description: The files, in the order of processing.
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: The whole text of the file. Only with I(state=present) or I(recorded).
        type: str
        default: ""
      state:
        description:
          - C(present) is a file with this text, C(directory) a directory, C(absent) no file.
          - A directory stays if it is not empty, or if this module did not create it.
          - C(restored) moves I(original) back; without I(original) the file is removed.
        type: str
        choices: [present, directory, absent, restored]
        default: present
      original:
        description:
          - Path of the copy of the existing file, made before I(state=present) writes it or I(state=absent) removes it.
          - An existing copy is never overwritten, so it is the file before the first change. A file that says
            C(Managed by ddp-play) is never copied.
        type: path
      recorded:
        description:
          - For a text without the mark, such as one that another program reads or rewrites. The record of the host has
            the checksums of what was written; a file with another text is the site's.
          - With I(state=present), a file of the site that has the text already is not touched, and any other becomes
            the I(original). With I(state=restored), a file of the site stays and is in I(left_paths). I(content) is
            then the text that a version without this record wrote, if a role made the directory for it.
        type: bool
        default: false
      mode:
        description:
          - Octal mode as a string; by default 0644 for files and 0755 for new directories.
          - An existing directory keeps its mode, owner and group by default.
        type: str
      owner:
        description: Name or number of the owner; by default root for files and new directories.
        type: str
      group:
        description: Name or number of the group; by default root for files and new directories.
        type: str
      validate:
        description: Command that reads the new text from C(%s) and exits with 0 if it is valid.
        type: list
        elements: str
        default: []
  record:
    description: The file on the host that names the directories created by the roles.
    type: path
    default: /etc/ddp-play/record.json
author: [the ddp-play authors]
"""

EXAMPLES = r"""
- name: Configure | Write the engine's configuration
  ddp.play.files:
    files:
      - path: /etc/docker/daemon.json
        content: "{{ __docker_engine_daemon_json }}"
        validate: [dockerd, --validate, --config-file=%s]
  notify: Restart Docker
"""

RETURN = r"""
changed_paths:
  description: The paths that were, or in check mode would be, changed.
  returned: always
  type: list
  elements: str
left_paths:
  description: The paths with I(recorded) whose file I(state=restored) left, because it is the site's.
  returned: always
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""


Want = Dict[str, Any]  # one item of option `files`, as Ansible checked it
Ids = Tuple[int, int]  # uid and gid
DEFAULT_MODES = {"present": "0644", "directory": "0755"}


def owner_ids(module: AnsibleModule, want: Want) -> Ids:  # type: ignore[return]  # fail_json ends the program
    """uid and gid of the wanted owner and group; ends the module if the host does not know one."""
    try:
        owner, group = want["owner"] or "root", want["group"] or "root"
        uid = int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
        return uid, int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError as error:
        module.fail_json(msg="%s: %s" % (want["path"], error), changed_paths=[])


def wanted_mode(want: Want) -> int:
    """Mode of a file or directory."""
    return int(want["mode"] or DEFAULT_MODES[want["state"]], 8)


def attributes_differ(path: str, want: Want, ids: Ids) -> bool:
    """Whether mode, owner or group differ from the wanted ones."""
    info = Path(path).stat()
    return stat.S_IMODE(info.st_mode) != wanted_mode(want) or (info.st_uid, info.st_gid) != ids


def set_attributes(path: str, want: Want, ids: Ids) -> None:
    """Give a path the wanted mode, owner and group."""
    os.chown(path, *ids)
    Path(path).chmod(wanted_mode(want))


def ensure_absent(module: AnsibleModule, want: Want) -> bool:
    """Remove a file, link or own empty directory; True if that was done, or would be in check mode.

    A link to a directory is the site's: nothing here makes one.
    """
    path = Path(want["path"])
    record = module.params["record"]
    if not os.path.lexists(str(path)) or (path.is_symlink() and path.is_dir()):
        return False
    if path.is_dir():
        if module.check_mode:
            return host_record.made_here(record, str(path)) and not any(path.iterdir())
        return bool(host_record.remove_made(record, str(path)))
    if not module.check_mode:
        path.unlink()
        host_record.remove_made(record, str(path.parent))
    return True


def kept_attributes(want: Want, ids: Ids) -> Tuple[Want, Ids]:
    """Attributes for an existing directory: by default its own mode, owner and group."""
    info = Path(want["path"]).stat()
    mode = want["mode"] or "%04o" % stat.S_IMODE(info.st_mode)
    owner = ids[0] if want["owner"] else info.st_uid
    group = ids[1] if want["group"] else info.st_gid
    return dict(want, mode=mode), (owner, group)


def ensure_directory(module: AnsibleModule, want: Want, ids: Ids) -> bool:
    """Create a directory with its parents or set its attributes; True if something changed, or would in check mode."""
    path = want["path"]
    if Path(path).is_dir():
        want, ids = kept_attributes(want, ids)
        if not attributes_differ(path, want, ids):
            return False
    if not module.check_mode:
        host_record.make_directories(module.params["record"], path)
        set_attributes(path, want, ids)
    return True


def ensure_text(module: AnsibleModule, want: Want, ids: Ids) -> bool:
    """Write the text to a temporary file and move it into place; True if that was done, or would be in check mode."""
    path, record = want["path"], module.params["record"]
    if recorded_files.stays(record, want):
        return False
    if want["recorded"] and not module.check_mode:
        recorded_files.note(record, path, want["content"])
    if read_text(path) == want["content"] and not attributes_differ(path, want, ids):
        return False
    if module.check_mode:
        return True
    folder = Path(path).parent
    host_record.make_directories(record, str(folder))
    if Path(path).is_dir() and not Path(path).is_symlink():
        module.fail_json(msg="%s: there is a directory in place of the file" % path, changed_paths=[])
    content = want["content"].encode()
    file_replacement.replace_file(path, content, mode=wanted_mode(want), move=module.atomic_move)
    set_attributes(path, want, ids)
    return True


def ensure_restored(module: AnsibleModule, want: Want) -> bool:
    """Undo what was written to a path; True if something changed, or would in check mode."""
    record = module.params["record"]
    changed = not recorded_files.stays(record, want) and give_back(module, want)
    if want["recorded"] and not module.check_mode:
        recorded_files.forget(record, want["path"])
    return changed


def give_back(module: AnsibleModule, want: Want) -> bool:
    """Move the original back with its owner and mode; remove the file if there was none before it."""
    original = want["original"]
    if not original or not os.path.lexists(original):
        return ensure_absent(module, want)
    if not module.check_mode:
        Path(original).replace(want["path"])
    return True


def ensure(module: AnsibleModule, want: Want) -> Optional[Dict[str, Any]]:
    """Set the state of one file; the difference if it changed, else None."""
    before, record = read_text(want["path"]), module.params["record"]
    found = FileBefore(want, before or "", record)
    ids: Any = owner_ids(module, want) if want["state"] in DEFAULT_MODES else None
    after: Optional[str]
    keeps = want["state"] in ("present", "absent")
    kept = keeps and file_originals.keep_original(record, want, check_mode=module.check_mode)
    if want["state"] == "absent":
        changed, after = ensure_absent(module, want), ""
    elif want["state"] == "restored":
        after = read_text(want["original"]) if want["original"] else ""
        changed = ensure_restored(module, want)
    elif want["state"] == "directory":
        changed, after = ensure_directory(module, want, ids), ""
    else:
        changed, after = ensure_text(module, want, ids), want["content"]
    if not changed and not kept:
        return None
    path = want["path"] if changed else want["original"]
    texts = {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
    return dict(texts, rows=found.rows(changed, bool(kept)))


def main() -> None:
    """Validate all new texts, then set the state of each file in the order of the list."""
    options = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "default": ""},
        "state": {"type": "str", "choices": ["present", "directory", "absent", "restored"], "default": "present"},
        "original": {"type": "path"},
        "recorded": {"type": "bool", "default": False},
        **{name: {"type": "str"} for name in ("mode", "owner", "group")},
        "validate": {"type": "list", "elements": "str", "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": options},
            "record": {"type": "path", "default": host_record.RECORD},
        },
        supports_check_mode=True,
    )
    wanted = module.params["files"]
    for want in wanted:
        if want["state"] == "present" and read_text(want["path"]) != want["content"]:
            file_validation.validate(module, want)
    leaves = [want for want in wanted if want["state"] == "restored"]
    left = [want["path"] for want in leaves if recorded_files.stays(module.params["record"], want)]
    differences = [found for found in (ensure(module, want) for want in wanted) if found]
    module.exit_json(
        changed=bool(differences),
        changed_paths=[found["after_header"] for found in differences],
        left_paths=left,
        ddp_changes=[row for found in differences for row in found.pop("rows")],
        diff=differences,
    )


if __name__ == "__main__":
    main()
