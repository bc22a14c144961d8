#!/usr/bin/python
"""Add rules to the firewall of the site, or remove ours, with the firewall's own program."""

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_rules
short_description: Add or remove single rules of firewalld or ufw
version_added: "0.1.0"
description:
  - Runs the calls of C(firewall-cmd) or C(ufw) that the filter C(ddp.play.firewall_steps) has found necessary. It
    knows the state of the host, so that each call changes something.
  - Stops at the first call that fails, and names it.
options:
  steps:
    description: The calls in their order.
    type: list
    elements: dict
    required: true
    suboptions:
      kind:
        description: What the call does.
        type: str
        choices: [add, remove]
        required: true
      argv:
        description: The program and its arguments.
        type: list
        elements: str
        required: true
      what:
        description: The rules of the call, for the listing.
        type: list
        elements: str
        required: true
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Open a port
  ddp.play.firewall_rules:
    steps:
      - kind: add
        argv: [ufw, allow, proto, tcp, from, 10.1.0.0/16, to, any, port, "2049", comment, ddp-play]
        what: [tcp 2049 from 10.1.0.0/16 (ufw)]
"""

RETURN = r"""
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

from typing import Any, Dict, List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import changes  # noqa: E402

ENGLISH = {"LC_ALL": "C", "LANGUAGE": "C"}
OWNERS = {changes.ADD: changes.NEW, changes.REMOVE: changes.OURS}


def rows(steps: List[Dict[str, Any]]) -> List[Dict[str, str]]:
    """One row per rule; a rule that goes into two zones is one."""
    pairs = dict.fromkeys((step["kind"], name) for step in steps for name in step["what"])
    return [changes.change(kind, "firewall rule " + name, OWNERS[kind]) for kind, name in pairs]


def main() -> None:
    """Run the calls, or in check mode none."""
    step = {
        "kind": {"type": "str", "choices": ["add", "remove"], "required": True},
        "argv": {"type": "list", "elements": "str", "required": True},
        "what": {"type": "list", "elements": "str", "required": True},
    }
    module = AnsibleModule(
        argument_spec={"steps": {"type": "list", "elements": "dict", "required": True, "options": step}},
        supports_check_mode=True,
    )
    steps = module.params["steps"]
    for row in [] if module.check_mode else steps:
        rc, out, err = module.run_command(row["argv"], environ_update=ENGLISH)
        if rc != 0:
            module.fail_json(
                msg="the firewall does not %s %s. '%s' failed (exit code %d): %s"
                % (row["kind"], ", ".join(row["what"]), " ".join(row["argv"]), rc, (err or out).strip())
            )
    module.exit_json(changed=bool(steps), ddp_changes=rows(steps))


if __name__ == "__main__":
    main()
