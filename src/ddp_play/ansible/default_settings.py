"""Ansible's settings for many hosts, where the user's environment and ansible.cfg do not set them."""

from __future__ import annotations

import configparser
import contextlib
import os
import shutil
import sys
from pathlib import Path

from ddp_play.bundle.controller_user import expanded

# Number of hosts that Ansible works on at a time; more would need too much memory on the controller.
FORKS = 100
# Ansible repeats a failed connection this often; more delays the report of a host that is down.
SSH_RETRIES = 1
# Read where the user has no ansible.cfg: for some settings there is no environment variable.
OWN_CONFIG = Path(__file__).with_name("files") / "ansible.cfg"
# Longest directory for the control sockets of ssh: the kernel takes paths of 107 bytes, Ansible adds `/` and 10
# characters, and ssh first makes the socket under a name with 17 characters more.
LONGEST_CONTROL_DIR = 107 - 17 - 11


def default_settings(cwd: str) -> dict[str, str]:
    """Ansible's settings for many hosts, unless the user's environment sets them."""
    defaults = {
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_FORKS": str(FORKS),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_RETRIES": str(SSH_RETRIES),
        # ansible-runner would disable it by default; only the user may do that
        "ANSIBLE_HOST_KEY_CHECKING": _configured("defaults", "host_key_checking", cwd) or "True",
    }
    if not any(expanded(place).is_file() for place in _configuration_files(cwd)):
        defaults["ANSIBLE_CONFIG"] = str(OWN_CONFIG)
    if control := _short_control_directory(cwd):
        defaults["ANSIBLE_SSH_CONTROL_PATH_DIR"] = control
    found = {name: value for name, value in defaults.items() if name not in os.environ}
    bin_dir = str(Path(sys.executable).parent)
    if not shutil.which("ansible-playbook") or bin_dir not in os.environ.get("PATH", "").split(os.pathsep):
        found["PATH"] = f"{bin_dir}{os.pathsep}{os.environ.get('PATH', '')}"
    return found


def control_directory(cwd: str) -> str:
    """Directory in which ssh makes the control sockets of a run."""
    named = os.environ.get("ANSIBLE_SSH_CONTROL_PATH_DIR") or _configured("ssh_connection", "control_path_dir", cwd)
    return str(expanded(named)) if named else _short_control_directory(cwd) or str(_usual_control_directory())


def _usual_control_directory() -> Path:
    return expanded(os.environ.get("ANSIBLE_HOME") or "~/.ansible") / "cp"


def _short_control_directory(cwd: str) -> str:
    """Directory for control sockets where the path of the home directory is too long for them; else empty.

    Only a directory that no other user can make or change; without one ssh reports the long path.
    """
    usual = _usual_control_directory()
    configured = any(_configured("ssh_connection", name, cwd) for name in ("control_path_dir", "control_path"))
    if configured or len(os.fsencode(usual)) <= LONGEST_CONTROL_DIR:
        return ""
    uid = os.geteuid()
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or ("/run" if uid == 0 else f"/run/user/{uid}"))
    with contextlib.suppress(OSError):
        found = runtime.stat()
        short = str(runtime / "ddp-play-ssh")
        if found.st_uid == uid and not found.st_mode & 0o022 and len(os.fsencode(short)) <= LONGEST_CONTROL_DIR:
            return short
    return ""


def _configured(section: str, name: str, cwd: str) -> str:
    """Value from the user's ansible.cfg, searched in Ansible's order; empty if not set."""
    for place in _configuration_files(cwd):
        if expanded(place).is_file():
            parser = configparser.ConfigParser(interpolation=None)
            with contextlib.suppress(configparser.Error):
                parser.read(expanded(place))
            return parser.get(section, name, fallback="")
    return ""


def _configuration_files(cwd: str) -> tuple[str, ...]:
    """Paths where Ansible looks for its configuration, in its order."""
    named = os.environ.get("ANSIBLE_CONFIG")
    usual = (str(Path(cwd, "ansible.cfg")), "~/.ansible.cfg", "/etc/ansible/ansible.cfg")
    return (named, *usual) if named else usual
