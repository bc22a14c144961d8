#!/usr/bin/python
"""Let a host take no new runs, wait for nobody to be left on it, or let it take runs again."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_drain
short_description: Let a host take no new runs, and say who still works there
version_added: "0.1.0"
description:
  - Writes a mark that ddp-play reads on the host before it starts ranks there.
  - The mark outlives a reboot, and ends by itself, so that a controller that died drains no host for ever.
  - Refused are new runs. Runs that are on the host go on, with their restarts, until the host is closed.
options:
  state:
    description:
      - C(drained) for no new runs. With C(closed) nobody may work there either, or the host stays drained; restarts of
        runs are refused too then. C(open) to take runs again.
    type: str
    choices: [drained, closed, open]
    default: drained
  reason:
    description:
      - Shown to whoever starts a run meanwhile; who does what to the host.
      - A mark with another reason is left alone, and C(drained) and C(closed) fail then, unless I(any) is true.
    type: str
    default: ""
  seconds:
    description: Time until the mark of a drained host ends by itself. An existing mark gets the new end.
    type: int
    default: 120
  closed_seconds:
    description: The same for a closed host.
    type: int
    default: 1800
  disrupt:
    description: Close the host although somebody works there.
    type: bool
    default: false
  any:
    description: With C(open), remove the mark whatever its reason is.
    type: bool
    default: false
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Take no new runs until nobody works on the host
  ddp.play.host_drain:
    state: closed
    reason: reboot by kim from login1
  register: drain
  until: drain.busy | length == 0 or drain.waited_s >= 600
  retries: 60
  delay: 10
"""

RETURN = r"""
state:
  description: C(drained), C(closed) or C(open).
  returned: always
  type: str
busy:
  description: Who works on the host, a clause each. Empty if nobody does, or if I(state) is not C(closed).
  returned: always
  type: list
  elements: str
waited_s:
  description: Seconds since the host was drained.
  returned: always
  type: float
path:
  description: The file with the mark. Removing it ends the drain.
  returned: always
  type: str
until:
  description: When the mark ends, in seconds since the epoch by the host's clock; 0 if the host takes runs.
  returned: always
  type: float
"""

import json  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import file_replacement, reboot_occupants  # noqa: E402

# src/ddp_play/guard/host_drain.py reads it; a unit test holds the two together.
MARK = Path("/var/lib/ddp-play-drain.json")


def read(mark: Path, now: float) -> Optional[Dict[str, Any]]:
    """Fields of a mark that has not ended; else None."""
    try:
        fields = json.loads(mark.read_text(encoding="utf-8"))
        return {**fields, "reason": str(fields["reason"])} if fields["until"] > now else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(mark: Path, reason: str, until: float, *, since: float = 0.0, closed: bool = False) -> None:
    """Make the mark in one step: readers see the old one or the new one. Raises OSError."""
    fields = {"reason": reason, "since": since, "until": until, "closed": closed}
    # whatever the umask: the programs of all users read it
    file_replacement.replace_file(str(mark), json.dumps(fields).encode(), mode=0o644)


def drain(mark: Path, params: Dict[str, Any], since: float) -> Dict[str, Any]:
    """Take no new runs for some time. `since`: when that began. Raises OSError."""
    now = time.time()
    until = now + params["seconds"]
    write(mark, params["reason"], until, since=since)
    return {"state": "drained", "busy": [], "until": until, "waited_s": max(0.0, now - since)}


def close(mark: Path, params: Dict[str, Any], since: float) -> Dict[str, Any]:
    """Drain the host; if nobody works there, or with `disrupt`, refuse restarts too. Raises OSError.

    Whoever begins after the mark was written finds it; whoever began before is found by a look after that.
    """
    answer = drain(mark, params, since)
    busy: List[str] = []
    if not params["disrupt"] and (busy := reboot_occupants.read()):
        return {**answer, "busy": busy}
    until = time.time() + params["closed_seconds"]
    write(mark, params["reason"], until, since=since, closed=True)
    if not params["disrupt"] and (busy := reboot_occupants.read()):
        return {**drain(mark, params, since), "busy": busy}
    return {**answer, "state": "closed", "until": until}


def reopen(mark: Path, params: Dict[str, Any], found: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """Remove the mark, unless it is somebody else's. Raises OSError."""
    if found and found["reason"] != params["reason"] and not params["any"]:
        return {"state": "drained", "busy": [], "until": found["until"], "waited_s": 0.0}
    if mark.exists():
        mark.unlink()
    return {"state": "open", "busy": [], "until": 0.0, "waited_s": 0.0}


def main() -> None:
    """Write the mark or remove it. In check mode only look."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["drained", "closed", "open"], "default": "drained"},
            "reason": {"type": "str", "default": ""},
            "seconds": {"type": "int", "default": 120},
            "closed_seconds": {"type": "int", "default": 1800},
            "disrupt": {"type": "bool", "default": False},
            "any": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    found = read(MARK, time.time())
    if found and found["reason"] != params["reason"] and params["state"] != "open":
        module.fail_json(
            msg="the host takes no new runs already: %s (%s). If nobody does that any more: "
            "ddp-play reboot -i INVENTORY --open --limit HOST" % (found["reason"], MARK)
        )
    changed = (found is not None) != (params["state"] != "open")
    if module.check_mode:
        busy = reboot_occupants.read() if params["state"] == "closed" else []
        module.exit_json(changed=changed, path=str(MARK), state=params["state"], busy=busy, until=0.0, waited_s=0.0)
    try:
        if params["state"] == "open":
            answer = reopen(MARK, params, found)
            changed = changed and answer["state"] == "open"
        elif params["state"] == "closed":
            answer = close(MARK, params, float((found or {}).get("since") or time.time()))
        else:
            answer = drain(MARK, params, time.time())
    except OSError as error:
        module.fail_json(msg="cannot write %s: %s" % (MARK, error.strerror))
    module.exit_json(changed=changed, path=str(MARK), **answer)


if __name__ == "__main__":
    main()
