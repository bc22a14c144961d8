"""Whether logind ends this user's processes at logout (KillUserProcesses), and whether the user manager stays (linger).

A guard of an ordinary user is a process of the SSH session: with KillUserProcesses=yes it would end with the
controller's connection, and its ranks with it.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Dict, List

from .programs import which
from .refusal import Refused
from .run_directory import user_name

CGROUP = Path("/proc/self/cgroup")
LINGER = Path("/var/lib/systemd/linger")
SESSION = re.compile(r"/session-[^/]+\.scope(/|$)", re.MULTILINE)
PROPERTIES = ("KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers")
TIMEOUT_S = 5.0


def ends_at_logout() -> bool:
    """Whether processes that this one starts are killed at logout. Raises Refused if logind does not answer."""
    return os.geteuid() != 0 and _is_in_session() and _kills(user_name(os.geteuid()))


def lingers() -> bool:
    """Whether the user manager of this user stays after the last logout."""
    return (LINGER / user_name(os.geteuid())).exists()


def user_manager_environment() -> Dict[str, str]:
    """Environment for systemd-run --user, which finds the user manager by XDG_RUNTIME_DIR."""
    return {"XDG_RUNTIME_DIR": "/run/user/%d" % os.geteuid(), **os.environ}


def _is_in_session() -> bool:
    try:
        return bool(SESSION.search(CGROUP.read_text(errors="replace")))
    except OSError:
        return False


def _kills(user: str) -> bool:
    """What logind does with this user's processes: the lists of users have precedence (logind.conf(5))."""
    program = which("busctl")
    if program is None:
        return False
    words = ["get-property", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"]
    try:
        done = subprocess.run(
            [program, "--system", *words, *PROPERTIES], capture_output=True, timeout=TIMEOUT_S, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(
            "logind did not answer within %g s, so it is unknown whether it ends the processes of %s at logout"
            % (TIMEOUT_S, user),
            hint="on the host: systemctl restart systemd-logind, until loginctl answers; or use become (-b)",
        ) from error
    except (OSError, subprocess.SubprocessError):
        return False  # no logind here
    return kills(done.stdout.decode("utf-8", "replace").splitlines(), user)


def kills(lines: List[str], user: str) -> bool:
    """Whether logind kills this user's processes, from busctl's lines about PROPERTIES: `b true`, `as 1 "kim"`."""
    if len(lines) < len(PROPERTIES):
        return False
    only, exclude = (re.findall(r'"([^"]*)"', line) for line in lines[1:3])
    if user in exclude:
        return False
    return user in only if only else lines[0] == "b true"
