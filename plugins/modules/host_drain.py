#!/usr/bin/python
"""Let a host take no new runs for some time, or take them again."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_drain
short_description: Let a host take no new runs for some time
version_added: "0.1.0"
description:
  - Writes a mark below C(/run) that ddp-play reads on the host before it starts ranks there. Runs that are on the host
    go on, with their restarts.
  - The mark has an end, and does not count after a reboot, so that a controller that died drains no host for ever.
options:
  state:
    description: C(drained) for no new runs, C(open) to take them again.
    type: str
    choices: [drained, open]
    default: drained
  reason:
    description:
      - Shown to whoever starts a run meanwhile; who does what to the host.
      - A mark with another reason is left alone. C(drained) fails then.
    type: str
    default: ""
  seconds:
    description: Time until the mark ends by itself. An existing mark gets the new end.
    type: int
    default: 600
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Take no new runs
  ddp.play.host_drain:
    reason: reboot by kim from login1
    seconds: 3900
"""

RETURN = r"""
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
import os  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Optional  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

# src/ddp_play/guard/host_drain.py reads it; a unit test holds the two together.
MARK = Path("/run/ddp-play/drain.json")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Number of this boot; empty where the kernel has none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def reason_of(mark: Path, now: float) -> Optional[str]:
    """Reason in the mark, if it is of this boot and has not ended; else None."""
    try:
        fields = json.loads(mark.read_text(encoding="utf-8"))
        return str(fields["reason"]) if fields["boot"] == boot_id() and fields["until"] > now else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(mark: Path, reason: str, until: float) -> None:
    """Make the mark in one step: readers see the old one or the new one. Raises OSError."""
    mark.parent.mkdir(exist_ok=True)
    mark.parent.chmod(0o755)  # whatever the umask: the programs of all users read the mark
    fd, name = tempfile.mkstemp(prefix=".drain-", dir=str(mark.parent))
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump({"reason": reason, "until": until, "boot": boot_id()}, file)
        Path(name).chmod(0o644)
        Path(name).replace(mark)
    except OSError:
        Path(name).unlink()
        raise


def main() -> None:
    """Write the mark or remove it."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["drained", "open"], "default": "drained"},
            "reason": {"type": "str", "default": ""},
            "seconds": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    now = time.time()
    wanted = module.params["state"] == "drained"
    until = now + module.params["seconds"] if wanted else 0.0
    found = reason_of(MARK, now)
    if found not in (None, module.params["reason"]):
        if wanted:
            module.fail_json(msg="the host takes no new runs already: %s (%s)" % (found, MARK))
        module.exit_json(changed=False, path=str(MARK), until=0.0)
    changed = (found is not None) != wanted
    try:
        if wanted and not module.check_mode:
            write(MARK, module.params["reason"], until)
        elif not module.check_mode and MARK.exists():
            MARK.unlink()
    except OSError as error:
        module.fail_json(msg="cannot write %s: %s" % (MARK, error.strerror))
    module.exit_json(changed=changed, path=str(MARK), until=until)


if __name__ == "__main__":
    main()
