#!/usr/bin/python
"""Start or restart a systemd unit although earlier starts have used up its start limit."""

from __future__ import annotations

DOCUMENTATION = r"""
module: unit_start
short_description: Start or restart a systemd unit, whatever its start limit
version_added: "0.1.0"
description:
  - systemd refuses a start with C(start-limit-hit) when a unit was started too often; docker.service may start three
    times a minute. A provisioning after other restarts would leave the host without the unit.
  - Clears systemd's count with C(systemctl reset-failed), then starts or restarts the unit.
  - Fails with the unit, the last lines of its journal and the command to run next.
options:
  name:
    description: The unit, with its suffix.
    type: str
    required: true
  state:
    description: C(started) changes nothing if the unit is active; C(restarted) always restarts.
    type: str
    choices: [started, restarted]
    default: started
  enabled:
    description: Also start the unit at every boot.
    type: bool
    default: false
  daemon_reload:
    description: Have systemd read its unit files again first.
    type: bool
    default: false
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Restart the engine
  ddp.play.unit_start:
    name: docker.service
    state: restarted
"""

RETURN = r"""
unit:
  description: The unit.
  returned: always
  type: str
journal:
  description: The last lines of the unit's journal, or C(systemctl status) if the journal has none.
  returned: failure
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

from typing import Dict, List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import changes  # noqa: E402

# UnitFileState of a unit that needs no `systemctl enable`; a static unit has nothing to enable.
ENABLED = frozenset(["enabled", "static", "indirect", "generated", "alias"])
ENGLISH = {"LC_ALL": "C", "LANGUAGE": "C"}
PROPERTIES = "LoadState,ActiveState,UnitFileState,Result"
JOURNAL_LINES = 15


def properties(text: str) -> Dict[str, str]:
    """The output of `systemctl show` as a mapping."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def steps(found: Dict[str, str], name: str, state: str, enabled: bool) -> List[List[str]]:
    """The calls of systemctl that change the unit from the state `found` to the wanted one; none if it is there."""
    wanted = []
    if enabled and found.get("UnitFileState", "") not in ENABLED:
        wanted.append(["enable", name])
    if state == "restarted":
        wanted += [["reset-failed", name], ["restart", name]]
    elif found.get("ActiveState") != "active":
        wanted += [["reset-failed", name], ["start", name]]
    return wanted


def read(module: AnsibleModule, name: str) -> Dict[str, str]:
    """Properties of the unit in systemd."""
    argv = ["systemctl", "show", "--property=" + PROPERTIES, "--", name]
    return properties(module.run_command(argv, environ_update=ENGLISH, check_rc=True)[1])


def journal(module: AnsibleModule, name: str) -> List[str]:
    """The last lines of the unit's journal, or of `systemctl status` if the journal has none."""
    lines = "--lines=%d" % JOURNAL_LINES
    for argv in (
        ["journalctl", "--quiet", "--no-pager", "--output=cat", lines, "--unit=" + name],
        ["systemctl", "status", "--no-pager", "--full", lines, "--", name],
    ):
        found = [line for line in module.run_command(argv, environ_update=ENGLISH)[1].splitlines() if line.strip()]
        if found:
            return found
    return []


def fail(module: AnsibleModule, name: str, step: str, error: str) -> None:
    """End the module with the unit, what failed, the host's own reason and what to run next."""
    found = journal(module, name)
    module.fail_json(
        msg="systemctl %s %s failed (result: %s). %s\nLast lines of its journal:\n%s\nRun on this host: "
        "systemctl status %s; journalctl -u %s -n 50. Fix the cause, then provision the host again."
        % (step, name, read(module, name).get("Result") or "unknown", error.strip(), "\n".join(found), name, name),
        unit=name,
        journal=found,
    )


def main() -> None:
    """Reload, enable, clear the count, start: the first step that fails ends the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["started", "restarted"], "default": "started"},
            "enabled": {"type": "bool", "default": False},
            "daemon_reload": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    name, state = module.params["name"], module.params["state"]
    if module.params["daemon_reload"] and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"], environ_update=ENGLISH, check_rc=True)
    found = read(module, name)
    wanted = steps(found, name, state, module.params["enabled"])
    row = changes.unit_change(
        name, found.get("LoadState", ""), found.get("ActiveState", ""), restarts=state == "restarted"
    )
    for step in [] if module.check_mode else wanted:
        rc, _, err = module.run_command(["systemctl", *step], environ_update=ENGLISH)
        # A unit that systemd has not loaded yet has no count to clear.
        if rc != 0 and step[0] != "reset-failed":
            fail(module, name, step[0], err)
    module.exit_json(changed=bool(wanted), unit=name, ddp_changes=[row] if wanted else [])


if __name__ == "__main__":
    main()
