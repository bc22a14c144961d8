#!/usr/bin/python
"""Put a host that failed its checks into quarantine, so that no controller uses it, or release it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_quarantine
short_description: Keep runs of all controllers away from a host that failed its checks
version_added: "0.1.0"
description:
  - Writes a mark that ddp-play reads on the host. It has no end, and C(ddp.play.host_drain) does not remove it.
  - A check leaves a mark that is there, with the evidence of then. Without I(level) the mark of a check is replaced,
    and C(ddp-play check --release) then leaves the host out until this module releases it.
  - Runs that are on the host go on. Their restarts use it only where other hosts are too few.
options:
  state:
    description: C(quarantined) to keep runs away, C(released) to take runs again.
    type: str
    choices: [quarantined, released]
    default: quarantined
  reason:
    description: Shown to whoever starts a run; what the host failed. Needed for C(quarantined).
    type: str
    default: ""
  by:
    description: Who decided it.
    type: str
    default: unknown
  controller:
    description: The machine that it was decided on.
    type: str
    default: unknown
  level:
    description: Level of the check that found it; empty for a decision of somebody.
    type: str
    default: ""
  checks:
    description: Names of the checks that failed.
    type: list
    elements: str
    default: []
  num_hosts:
    description: Number of hosts that were compared, this one included.
    type: int
    default: 0
  evidence:
    description: The findings, as C(ddp-play check --json) has them.
    type: list
    elements: dict
    default: []
  of_check:
    description: With C(released), leave a mark that no check wrote.
    type: bool
    default: false
  directory:
    description:
      - State directory of the user, to keep only the runs of this user away. Without it the mark is root's, and counts
        for everybody. Root has no list of its own.
    type: path
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Keep runs away from a host with a slow network
  ddp.play.host_quarantine:
    reason: "network speed: 90 Mb/s, the others 940 Mb/s"
    by: kim
    controller: login1
"""

RETURN = r"""
path:
  description: The file with the mark.
  returned: always
  type: str
kept:
  description: Why a mark that is there was not replaced or removed; empty if that was done, or if there was none.
  returned: always
  type: str
"""

import json  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Dict  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import file_replacement  # noqa: E402

# src/ddp_play/guard/host_drain.py reads them, and no more of them than MAX_BYTES; a unit test holds the two together.
MARK = Path("/var/lib/ddp-play-quarantine.json")
OWN = "quarantine-own.json"
MAX_BYTES = 4096
MAX_TEXT, MAX_LEVEL = 200, 20
IS_THERE = "the host is in quarantine already"
BY_HAND = "somebody decided it without a check"


def content(params: Dict[str, Any], since: float) -> bytes:
    """The mark, with as many of the findings and names of checks as fit into what readers read."""
    texts = {name: str(params[name])[:MAX_TEXT] for name in ("reason", "by", "controller")}
    texts["level"] = str(params["level"])[:MAX_LEVEL]
    evidence, checks = list(params["evidence"]), [str(name)[:MAX_TEXT] for name in params["checks"]]
    while True:
        fields = {**texts, "since": since, "checks": checks, "num_hosts": params["num_hosts"], "evidence": evidence}
        data = json.dumps(fields, ensure_ascii=False).encode(errors="replace")
        if len(data) <= MAX_BYTES or not (evidence or checks):
            return data
        (evidence or checks).pop()


def is_of_check(mark: Path) -> bool:
    """Whether a check wrote the mark. One that cannot be read is taken for somebody's."""
    try:
        return bool(json.loads(mark.read_text(encoding="utf-8"))["level"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def why_kept(mark: Path, params: Dict[str, Any]) -> str:
    """Why the mark that is there stays as it is; empty if it may be replaced or removed."""
    if params["state"] == "quarantined":
        return IS_THERE if params["level"] or not is_of_check(mark) else ""
    return BY_HAND if params["of_check"] and not is_of_check(mark) else ""


def apply(mark: Path, params: Dict[str, Any], *, look_only: bool) -> Dict[str, Any]:
    """Write the mark or remove it; whether that changes anything, and why not. Raises OSError."""
    there = mark.is_symlink() or mark.exists()
    wanted = params["state"] == "quarantined"
    kept = why_kept(mark, params) if there else ""
    changed = not kept and (wanted or there)
    if not changed or look_only:
        return {"changed": changed, "kept": kept}
    if wanted:
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # whatever the umask: the programs of all users read root's
        file_replacement.replace_file(str(mark), content(params, time.time()), mode=0o644)
    else:
        mark.unlink()
    return {"changed": True, "kept": ""}


def main() -> None:
    """Write the mark or remove it. In check mode only look."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["quarantined", "released"], "default": "quarantined"},
            "reason": {"type": "str", "default": ""},
            "by": {"type": "str", "default": "unknown"},
            "controller": {"type": "str", "default": "unknown"},
            "level": {"type": "str", "default": ""},
            "checks": {"type": "list", "elements": "str", "default": []},
            "num_hosts": {"type": "int", "default": 0},
            "evidence": {"type": "list", "elements": "dict", "default": []},
            "of_check": {"type": "bool", "default": False},
            "directory": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["state"] == "quarantined" and not params["reason"].strip():
        module.fail_json(msg="no reason: say what the host failed, for whoever finds it left out (reason: ...)")
    if params["directory"] and os.geteuid() == 0:
        module.fail_json(msg="a directory is for the list of an ordinary user; root's list counts for everybody")
    mark = Path(params["directory"], OWN) if params["directory"] else MARK
    try:
        answer = apply(mark, params, look_only=module.check_mode)
    except OSError as error:
        module.fail_json(msg="cannot change %s: %s" % (mark, error.strerror))
    module.exit_json(path=str(mark), **answer)


if __name__ == "__main__":
    main()
