#!/usr/bin/python
"""Put packages on hold, or release them, in one execution for the whole list."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_hold
short_description: Hold many dpkg packages at once
version_added: "0.1.0"
description:
  - Sets dpkg's selection of every installed package that matches.
  - M(ansible.builtin.dpkg_selections) takes one name per call.
options:
  patterns:
    description: Glob patterns of package names; only installed packages are touched, and none without a pattern.
    type: list
    elements: str
    required: true
  exclude:
    description: Glob patterns of package names to exclude.
    type: list
    elements: str
    default: []
  state:
    description: Hold them, or release them.
    type: str
    choices: [held, released]
    default: held
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Hold the driver
  ddp.play.package_hold:
    patterns: [nvidia-*, libnvidia-*]
"""

RETURN = r"""
packages:
  description: The names whose selection changed, or would in check mode.
  returned: always
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

from typing import Any, Dict, List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import changes  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils.nvidia import parse_dpkg, without  # noqa: E402


def to_change(installed: Dict[str, Dict[str, Any]], hold: bool) -> List[str]:
    """Sorted names of the installed packages whose hold differs from the wanted one."""
    return sorted(name for name, package in installed.items() if package["held"] != hold)


def main() -> None:
    """Change the selections of all matching packages in one call of dpkg; in check mode only list them."""
    module = AnsibleModule(
        argument_spec={
            "patterns": {"type": "list", "elements": "str", "required": True},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
        },
        supports_check_mode=True,
    )
    hold = module.params["state"] == "held"
    fields = "${binary:Package}\t${Version}\t${db:Status-Abbrev}\n"
    patterns = module.params["patterns"]
    # Without a pattern dpkg-query lists all packages. rc 1: a pattern matched none, which is not an error here.
    out = module.run_command(["dpkg-query", "-W", "-f", fields, *patterns])[1] if patterns else ""
    names = to_change(without(parse_dpkg(out), module.params["exclude"]), hold)
    if names and not module.check_mode:
        word = "hold" if hold else "install"
        module.run_command(
            ["dpkg", "--set-selections"],
            data="".join(f"{name} {word}\n" for name in names),
            check_rc=True,
        )
    rows = [changes.change(changes.CHANGE, "hold of package " + name, changes.THEIRS) for name in names]
    module.exit_json(changed=bool(names), packages=names, ddp_changes=rows)


if __name__ == "__main__":
    main()
