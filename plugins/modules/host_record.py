#!/usr/bin/python
"""Record the state of units and kernel settings before a role changes them, and restore it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import changes, host_record

DOCUMENTATION = r"""
module: host_record
short_description: Record what a role found on a host, and restore it
description:
  - Keeps one file on the host, by role. C(recorded) adds what the record does not have and never overwrites an entry,
    so that the record has the state before the first change. A record that did not exist is one of a new host.
  - C(restored) gives units and kernel settings the recorded state and removes the role's entries, except those of
    M(ddp.play.recorded_packages).
options:
  role:
    description: Name of the role.
    type: str
    required: true
  state:
    description: Record, restore, or only return the record.
    type: str
    choices: [recorded, restored, read]
    default: recorded
  units:
    description: systemd units. A unit that systemd does not know is not recorded.
    type: list
    elements: str
    default: []
  settings:
    description: Names of kernel settings, as C(sysctl) prints them.
    type: list
    elements: str
    default: []
  values:
    description: Texts by name; the first one recorded stays.
    type: dict
    default: {}
  notes:
    description: Lists of names to be added to the record, such as users or holds; the role itself undoes them.
    type: dict
    default: {}
  record:
    description: The file of the record.
    type: path
    default: /etc/ddp-play/record.json
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Converge | Record the state before the first change
  ddp.play.host_record:
    role: base_os
    units: [chrony.service]
    settings: [net.core.somaxconn]

- name: Remove | Restore it
  ddp.play.host_record:
    role: base_os
    state: restored
"""

RETURN = r"""
entries:
  description:
    - The record of the role - C(units), C(settings), I(values) and the lists of I(notes). For C(restored), as it was
      before its removal.
  returned: always
  type: dict
restored:
  description: Names of the units and settings that were changed back.
  returned: always
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

ENGLISH = {"LC_ALL": "C", "LANGUAGE": "C"}
Entries = Dict[str, Any]


def setting_path(name: str) -> Path:
    """The file of a kernel setting."""
    return Path("/proc/sys", *name.split("."))


def read_unit(module: AnsibleModule, name: str) -> Dict[str, str]:
    """Load state, enablement and activity of a unit."""
    argv = ["systemctl", "show", "--property=LoadState,UnitFileState,ActiveState", "--", name]
    out = module.run_command(argv, environ_update=ENGLISH, check_rc=True)[1]
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    return {"load": found["LoadState"], "enabled": found["UnitFileState"], "active": found["ActiveState"]}


def with_units(module: AnsibleModule, entries: Entries, names: List[str]) -> Entries:
    """The entries with the present state of units that they lack."""
    new = {name: read_unit(module, name) for name in names if name not in entries.get("units", {})}
    known = {name: row for name, row in new.items() if row["load"] == "loaded"}
    return dict(entries, units=dict(entries.get("units", {}), **known)) if known else entries


def with_settings(entries: Entries, names: List[str]) -> Entries:
    """The entries with the present value of settings that they lack."""
    there = entries.get("settings", {})
    new = {name: setting_path(name).read_text().strip() for name in names if setting_path(name).exists()}
    return dict(entries, settings=dict(new, **there)) if set(new) - set(there) else entries


def with_notes(entries: Entries, notes: Dict[str, List[str]]) -> Entries:
    """The entries with the names that they lack."""
    for key, names in notes.items():
        if set(names) - set(entries.get(key, [])):
            entries = dict(entries, **{key: sorted({*entries.get(key, []), *names})})
    return entries


def unit_steps(was: Dict[str, str], found: Dict[str, str]) -> List[str]:
    """The words of systemctl that give a unit its recorded state back."""
    if found["load"] != "loaded":
        return []
    steps = []
    if was["enabled"] == "disabled" and found["enabled"] == "enabled":
        steps.append("disable")
    if was["enabled"] == "enabled" and found["enabled"] == "disabled":
        steps.append("enable")
    if was["active"] != "active" and found["active"] == "active":
        steps.append("stop")
    if was["active"] == "active" and found["active"] != "active":
        steps.append("start")
    return steps


def restore_units(module: AnsibleModule, units: Dict[str, Dict[str, str]]) -> List[str]:
    """Give every unit its recorded state; the names of those that differed."""
    changed = []
    for name, was in units.items():
        steps = unit_steps(was, read_unit(module, name))
        for step in [] if module.check_mode else steps:
            module.run_command(["systemctl", step, "--", name], environ_update=ENGLISH, check_rc=True)
        changed += [name] if steps else []
    return changed


def restore_settings(module: AnsibleModule, settings: Dict[str, str]) -> List[str]:
    """Write the recorded values; the names of the settings that had another one."""
    changed = []
    for name, value in settings.items():
        path = setting_path(name)
        if path.exists() and path.read_text().split() != value.split():
            changed.append(name)
            if not module.check_mode:
                path.write_text(value + "\n")
    return changed


def main() -> None:
    """Record, read or restore the entries of one role."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["recorded", "restored", "read"], "default": "recorded"},
            "units": {"type": "list", "elements": "str", "default": []},
            "settings": {"type": "list", "elements": "str", "default": []},
            "values": {"type": "dict", "default": {}},
            "notes": {"type": "dict", "default": {}},
            "record": {"type": "path", "default": host_record.RECORD},
        },
        supports_check_mode=True,
    )
    want = module.params
    record = host_record.load(want["record"])
    entries = there = record.get(want["role"], {})
    restored: List[str] = []
    if want["state"] == "recorded":
        entries = with_settings(with_units(module, entries, want["units"]), want["settings"])
        entries = dict(want["values"], **with_notes(entries, want["notes"]))
    elif want["state"] == "restored":
        restored = restore_settings(module, there.get("settings", {}))
        restored += restore_units(module, there.get("units", {}))
    # The packages of the role stay in the record until recorded_packages has removed them.
    packages = {key: value for key, value in there.items() if key in host_record.OF_PACKAGES}
    after = packages if want["state"] == "restored" else entries
    if not record and want["state"] == "recorded":
        record = {host_record.ACCEPTANCE: {"due": True}}
    if after != there and not module.check_mode:
        host_record.save(want["record"], dict(record, **{want["role"]: after}))
    # A record alone is no change of the host that anybody would notice.
    rows = [changes.change(changes.CHANGE, name + " (as before)", changes.THEIRS) for name in restored]
    module.exit_json(changed=bool(restored), entries=entries, restored=restored, ddp_changes=rows)


if __name__ == "__main__":
    main()
