"""Whether this user may become root with sudo and without a password, which provisioning needs and runs do not."""

from __future__ import annotations

import os
import subprocess

from .programs import which

LIMIT_S = 10.0


def problem() -> str:
    """Why not, in sudo's words; empty for root and for a user who may."""
    if os.geteuid() == 0:
        return ""
    sudo = which("sudo")
    if not sudo:
        return "sudo is not installed"
    try:
        done = subprocess.run(
            [sudo, "-n", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return "sudo did not answer within %g s" % LIMIT_S
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else "sudo -n true exits with %d" % done.returncode)
