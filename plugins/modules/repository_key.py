#!/usr/bin/python
"""Fetch the key of a package repository, and install it only if it is a known one."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url
from ansible_collections.ddp.play.plugins.module_utils import changes, file_replacement, openpgp

DOCUMENTATION = r"""
module: repository_key
short_description: Install the key of a package repository if its fingerprint is known
description:
  - Downloads the key, compares the fingerprint of every primary key in the file with the known ones, and only then
    writes it. Another key fails, and changes nothing.
  - A file that has only known keys is not downloaded again.
  - In check mode the key is downloaded and compared too.
options:
  url:
    description: Address of the ASCII-armoured key.
    type: str
    required: true
  path:
    description: Where the key is installed, with mode 0644.
    type: path
    required: true
  fingerprints:
    description:
      - Known fingerprints, in hexadecimal digits; blanks do not count. The end of a fingerprint of at least eight
        digits (the id of the key) is enough, but such an id is no proof against a forged key.
    type: list
    elements: str
    required: true
  variable:
    description: The role's variable for the fingerprints of a site's own keys, to be named in the message.
    type: str
    required: true
  timeout_s:
    description: Seconds without an answer until the download fails.
    type: int
    default: 30
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Repository | Fetch the key
  ddp.play.repository_key:
    url: https://download.docker.com/linux/debian/gpg
    path: /etc/apt/keyrings/ddp-play-docker.asc
    fingerprints: [9DC858229FC7DD38854AE2D88D81803C0EBFCD88]
    variable: docker_engine_repo_key_fingerprints
"""

RETURN = r"""
fingerprints:
  description: Fingerprints of the primary keys in the file.
  returned: success
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: success
  type: list
  elements: dict
"""

MAX_KEY_BYTES = 1 << 20


def installed(path: Path, known: List[str]) -> Optional[List[str]]:
    """Fingerprints of the installed file; None if there is none, or if it has another key."""
    try:
        found = openpgp.fingerprints(path.read_bytes())
    except (OSError, ValueError):
        return None
    return None if openpgp.unknown(found, known) else list(found)


def download(module: AnsibleModule) -> bytes:
    """The text of the key; ends the module if it cannot be had."""
    url = module.params["url"]
    answer, info = fetch_url(module, url, timeout=module.params["timeout_s"])
    if answer is None or (info["status"] != 200 and not url.startswith("file:/")):
        module.fail_json(msg="Request failed: %s" % info["msg"], url=url)
    return bytes(answer.read(MAX_KEY_BYTES))


def check(module: AnsibleModule, text: bytes) -> List[str]:
    """Fingerprints of the downloaded keys; ends the module if one is not known."""
    url, path, known = (module.params[name] for name in ("url", "path", "fingerprints"))
    try:
        found: List[str] = openpgp.fingerprints(text)
    except ValueError as error:
        module.fail_json(msg="%s is not a key of a repository: %s. %s was not written." % (url, error, path))
    others = openpgp.unknown(found, known)
    if others:
        module.fail_json(
            msg="The key from %s has the fingerprint %s, but the known one is %s. It is not trusted: %s was not "
            "written, and nothing was changed. If a site's own mirror signs with this key, compare the fingerprint "
            "with the mirror's administrator and set %s."
            % (url, ", ".join(others), " or ".join(known) or "none", path, module.params["variable"])
        )
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "fingerprints": {"type": "list", "elements": "str", "required": True},
            "variable": {"type": "str", "required": True},
            "timeout_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    there = installed(path, module.params["fingerprints"])
    if there is not None:
        module.exit_json(changed=False, fingerprints=there, ddp_changes=[])
    text = download(module)
    found = check(module, text)
    kind, whose = (changes.CHANGE, changes.OURS) if path.exists() else (changes.ADD, changes.NEW)
    if not module.check_mode:
        file_replacement.replace_file(str(path), text, mode=0o644, move=module.atomic_move)
    row = changes.change(kind, "file %s" % path, whose)
    module.exit_json(changed=True, fingerprints=found, ddp_changes=[row])


if __name__ == "__main__":
    main()
