#!/usr/bin/python
"""Read the state of a host for a role in one execution: files, units, packages, commands."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import state_reading

DOCUMENTATION = r"""
module: host_state
short_description: Read files, units, packages and read-only commands in one execution
description:
  - An unchanged module task over eight hosts takes seconds, so a role reads everything in one task.
  - Changes nothing. Its commands must only read.
options:
  files:
    description: Paths to read.
    type: list
    elements: path
    default: []
  content:
    description: Paths whose text is returned too (64 KiB at most each).
    type: list
    elements: path
    default: []
  units:
    description: systemd units, as C(systemctl show) names them.
    type: list
    elements: str
    default: []
  packages:
    description: Package names to look up with dpkg or rpm.
    type: list
    elements: str
    default: []
  holds:
    description: Report which of I(packages) the package manager holds (dpkg) or locks to a version (dnf).
    type: bool
    default: false
  role:
    description: Role whose record on the host is returned as C(recorded) and C(recorded_holds).
    type: str
    default: ""
  commands:
    description: A name for each command (a list of arguments). A missing program gives 127.
    type: dict
    default: {}
  timeout_s:
    description: Time limit of one command in seconds; a command that takes longer gives 124.
    type: int
    default: 30
  occupants:
    description:
      - Look for what a restart, a reload or a reboot would hurt. Any running container and any rank counts,
        and so does an engine that does not answer within ten seconds.
    type: bool
    default: false
  reboot_occupants:
    description: Look for what a reboot would hurt beyond I(occupants) and users of GPUs.
    type: bool
    default: false
  settled:
    description:
      - Conditions as C(that) of C(ansible.builtin.assert) takes them, which may use the registered result of this task.
        The controller evaluates them in the same task; whether all hold is in the result. A role ends there on a host
        on which it has nothing to do or to say.
    type: list
    elements: raw
    default: []
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Preflight | Read the state of the engine
  ddp.play.host_state:
    files: [/etc/docker/daemon.json]
    units: [docker.service]
    packages: [docker-ce, docker-ce-cli]
    commands:
      holds: [apt-mark, showhold]
    occupants: true
  register: __docker_engine_state
"""

RETURN = r"""
files:
  description:
    - By path - C(type) (file, directory, link, other, absent), C(mode), C(uid), C(gid), C(size), C(mtime),
      C(content).
  returned: always
  type: dict
units:
  description: By unit - C(load), C(active), C(sub), C(enabled), C(need_reload), C(result), and
    C(started), when its main process was started (seconds since 1970 by the clock as it is now, 0 when none runs).
  returned: always
  type: dict
packages:
  description: By name - the installed version, empty if it is not installed.
  returned: always
  type: dict
held:
  description: The installed ones of I(packages) that are on hold. Empty unless I(holds) is true.
  returned: always
  type: list
  elements: str
recorded:
  description: Packages that I(role) has added to the host.
  returned: always
  type: list
  elements: str
recorded_holds:
  description: Packages that I(role) has put on hold, and that were not on hold before.
  returned: always
  type: list
  elements: str
commands:
  description: By name - C(rc), C(stdout), C(stderr).
  returned: always
  type: dict
occupants:
  description:
    - C(reasons), why the host is busy, a clause each, empty if it is not busy.
    - C(engine), one of C(running), C(silent) (it hangs), C(stopped), C(absent), C(unknown).
    - C(containers), every running one with C(name) and C(image), except those of the roles' own systemd units.
    - C(guards), the directories of runs whose ranks are on this host.
    - Empty unless I(occupants) is true.
  returned: always
  type: dict
reboot_occupants:
  description: Why a reboot would disturb somebody beyond I(occupants), a clause each. Empty unless asked for.
  returned: always
  type: list
  elements: str
settled:
  description: Whether all conditions of I(settled) hold; false without conditions, and if one cannot be evaluated.
  returned: always
  type: bool
"""


def main() -> None:
    """Return the requested state."""
    module = AnsibleModule(
        argument_spec={
            **state_reading.ARGUMENTS,
            "settled": {"type": "list", "elements": "raw", "default": []},  # plugins/action/host_state.py
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **state_reading.gather(module.params))


if __name__ == "__main__":
    main()
