#!/usr/bin/python
"""Write the MUNGE key of a cluster, or give back the one that was there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
short_description: The MUNGE key that all hosts of a cluster share
version_added: "0.2.0"
description:
  - C(present) writes the key for user munge alone (mode 0400) in one step. An existing key is kept next to it once,
    except with I(own), where a role installed MUNGE and the key belongs to nobody else.
  - C(restored) moves the kept key back, or leaves the key where none was kept.
  - Neither the key nor a difference is in the answer.
options:
  key:
    description: The key in base64, 32 to 1024 bytes.
    type: str
    default: ""
  own:
    description: Do not keep the existing key.
    type: bool
    default: false
  path:
    description: File of the key.
    type: path
    default: /etc/munge/munge.key
  state:
    description: Write the key, or give the former one back.
    type: str
    choices: [present, restored]
    default: present
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Write the key of the cluster
  ddp.play.munge_key:
    key: "{{ slurm_munge_key }}"
  no_log: true
  notify: Restart munge
"""

RETURN = r"""
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

import base64  # noqa: E402
import binascii  # noqa: E402
import pwd  # noqa: E402
import shutil  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import changes, file_replacement  # noqa: E402

KEPT = ".ddp-play.orig"
MIN_BYTES, MAX_BYTES = 32, 1024
MODE = 0o400
Rows = List[Dict[str, str]]


def decoded(key: str) -> bytes:
    """The key's bytes. Raises ValueError, without the key in its text, for what is no key."""
    try:
        found = base64.b64decode("".join(key.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the key is not base64") from None
    if not MIN_BYTES <= len(found) <= MAX_BYTES:
        raise ValueError("the key has %d bytes; munged takes %d to %d" % (len(found), MIN_BYTES, MAX_BYTES))
    return found


def owner_of(path: Path) -> Optional[int]:
    """uid of user munge; None while the package is not installed."""
    try:
        return pwd.getpwnam("munge").pw_uid
    except KeyError:
        return path.stat().st_uid if path.exists() else None


def write(module: AnsibleModule, path: Path, key: bytes, own: bool) -> Rows:
    """Write the key if it differs; the rows of what changes."""
    there = path.read_bytes() if path.is_file() else None
    if there == key and path.stat().st_mode & 0o777 == MODE:
        return []
    kept = Path(str(path) + KEPT)
    theirs = there is not None and not own and not kept.exists()
    kind, whose = (changes.ADD, changes.NEW) if there is None else (changes.CHANGE, changes.OURS)
    rows = [changes.change(kind, str(path), changes.THEIRS if theirs else whose)]
    if module.check_mode:
        return rows
    owner = owner_of(path)
    if owner is None:
        module.fail_json(msg="there is no user munge: install the package munge first")
    if theirs:
        file_replacement.keep_copy(str(path), str(kept))
    file_replacement.replace_file(str(path), key, mode=MODE, move=module.atomic_move)
    shutil.chown(str(path), owner, owner if owner == 0 else pwd.getpwuid(owner or 0).pw_gid)
    path.chmod(MODE)
    return rows


def restore(module: AnsibleModule, path: Path) -> Rows:
    """Move the kept key back; the rows of what changes."""
    kept = Path(str(path) + KEPT)
    if not kept.exists():
        return []
    if not module.check_mode:
        kept.replace(path)
    return [changes.change(changes.CHANGE, str(path), changes.OURS)]


def act(module: AnsibleModule, params: Dict[str, Any]) -> Rows:
    """Do what `state` says."""
    path = Path(params["path"])
    if params["state"] == "restored":
        return restore(module, path)
    return write(module, path, decoded(params["key"]), params["own"])


def main() -> None:
    """Write or restore the key; its text is never returned."""
    module = AnsibleModule(
        argument_spec={
            "key": {"type": "str", "default": "", "no_log": True},
            "own": {"type": "bool", "default": False},
            "path": {"type": "path", "default": "/etc/munge/munge.key"},
            "state": {"type": "str", "choices": ["present", "restored"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        rows = act(module, module.params)
    except ValueError as error:
        module.fail_json(msg="%s: %s" % (module.params["path"], error))
    module.exit_json(changed=bool(rows), ddp_changes=rows)


if __name__ == "__main__":
    main()
