"""Why a host cannot be used, by what ssh, sudo, Ansible and shells say: kind and remedy."""

from __future__ import annotations

import re

# What ssh, sudo and Ansible say when a host cannot be used -> kind and remedy.
PROBLEMS: tuple[tuple[str, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "host_key",
        "if the host was reinstalled: ssh-keygen -R {address}; if it is new: connect once with ssh, or ssh-keyscan",
    ),
    (
        r"Permission denied \(|Permission denied, please try again|Invalid/incorrect (username/)?password",
        "credentials",
        "which key does it want? --private-key, -u, or ansible_ssh_private_key_file in the inventory",
    ),
    (
        r"[Mm]issing sudo password|sudo: a password is required|a terminal is required|Incorrect sudo password|"
        r"[Mm]issing become password|Incorrect become password|"
        r"is not in the sudoers file|is not allowed to (run|execute)",
        "become",
        "give the password with -K, or NOPASSWD in sudoers for this user",
    ),
    (
        r"sudo: (command )?not found|sudo: No such file",
        "become",
        "install sudo on {host}, or connect as root with -u root",
    ),
    (r"Could not resolve hostname|Name or service not known", "unreachable", "set ansible_host in the inventory"),
    (
        # dash, bash, and a Python older than 3.7 that reads our program
        r"python[\w.-]*: (command not found|not found|(cannot execute: )?No such file or directory|Permission denied)|"
        r"future feature annotations is not defined",
        "python",
        "install Python 3.9 or newer on {host}, or name it with ansible_python_interpreter",
    ),
)


def problem_from_text(host: str, text: str, address: str, *, reached: bool = False, hint: str = "") -> dict[str, str]:
    """A Problem as data, from whatever the connection said; `reached` when the host itself answered something."""
    lines = re.sub("@{3,}", "", text).splitlines()  # ssh's frame around a changed host key
    words = " ".join(line.strip() for line in lines if line.strip() and not line.startswith("@"))
    for pattern, kind, remedy in PROBLEMS:
        if re.search(pattern, text):
            hint = hint or remedy.format(address=address, host=host)
            return {"host": host, "kind": kind, "message": words[-400:], "hint": hint}
    if reached:
        return {"host": host, "kind": "other", "message": words[-400:] or "it gave no answer", "hint": hint}
    hint = f"is it up? ssh {address}"
    return {"host": host, "kind": "unreachable", "message": words[-400:] or "unreachable", "hint": hint}
