"""Ansible's settings for many hosts, where the user's environment and ansible.cfg do not set them."""

from __future__ import annotations

import configparser
import contextlib
import os
import shutil
import sys
from pathlib import Path

# Number of hosts that Ansible works on at a time; more would need too much memory on the controller.
FORKS = 100
# Ansible repeats a failed connection this often; more delays the report of a host that is down.
SSH_RETRIES = 1


def default_settings(cwd: str) -> dict[str, str]:
    """Ansible's settings for many hosts, unless the user's environment sets them."""
    defaults = {
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_FORKS": str(FORKS),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_RETRIES": str(SSH_RETRIES),
        # ansible-runner would disable it by default; only the user may do that
        "ANSIBLE_HOST_KEY_CHECKING": _configured("host_key_checking", cwd) or "True",
    }
    found = {name: value for name, value in defaults.items() if name not in os.environ}
    bin_dir = str(Path(sys.executable).parent)
    if not shutil.which("ansible-playbook") or bin_dir not in os.environ.get("PATH", "").split(os.pathsep):
        found["PATH"] = f"{bin_dir}{os.pathsep}{os.environ.get('PATH', '')}"
    return found


def _configured(name: str, cwd: str) -> str:
    """Value from the user's ansible.cfg, searched in Ansible's order; empty if not set."""
    places = (
        os.environ.get("ANSIBLE_CONFIG"),
        str(Path(cwd, "ansible.cfg")),
        "~/.ansible.cfg",
        "/etc/ansible/ansible.cfg",
    )
    for place in places:
        if place and Path(place).expanduser().is_file():
            parser = configparser.ConfigParser(interpolation=None)
            with contextlib.suppress(configparser.Error):
                parser.read(Path(place).expanduser())
            return parser.get("defaults", name, fallback="")
    return ""
