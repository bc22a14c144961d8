"""Reading a host for the fact modules: programs, files, packages, units; changes nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, cast

from ansible_collections.ddp.play.plugins.module_utils import nvidia

Packages = Dict[str, Dict[str, Any]]  # by name: version, and held (is it on hold?)


def run(argv: List[str], timeout_s: int = 60) -> Tuple[int, str, str]:
    """rc 127 if the program does not exist, 124 if it hung."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError:
        return 127, "", f"{argv[0]}: not found"
    except subprocess.TimeoutExpired:
        return 124, "", f"{argv[0]}: no answer in {timeout_s} s"
    return done.returncode, done.stdout, done.stderr


def read(path: Path) -> str:
    """Text of a file without surrounding spaces; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def read_bytes(path: Path) -> Optional[bytes]:
    """Content of a file; None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def packages(patterns: List[str], exclude: List[str]) -> Packages:
    """Installed packages by name, with version and hold."""
    if not patterns:
        return {}
    fields = "${binary:Package}\t${Version}\t${db:Status-Abbrev}\n"
    rc, out, _ = run(["dpkg-query", "-W", "-f", fields, *patterns])
    if rc != 127:  # rc 1: a pattern matched nothing
        return cast("Packages", nvidia.without(nvidia.parse_dpkg(out), exclude))
    _, out, _ = run(["rpm", "-qa", "--qf", "%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n", *patterns])
    locks = read(Path("/etc/dnf/plugins/versionlock.list"))
    return cast("Packages", nvidia.without(nvidia.parse_rpm(out, locks), exclude))


def unit_states(units: List[str]) -> Dict[str, Dict[str, str]]:
    """Units that systemd knows, with active, enabled, drop_ins."""
    if not units:
        return {}
    _, out, _ = run(["systemctl", "show", "-p", "ActiveState,UnitFileState,LoadState,DropInPaths", "--", *units])
    states = {}
    for unit, block in zip(units, out.split("\n\n")):  # noqa: B905 - strict= needs Python 3.10
        fields = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
        if fields.get("LoadState") == "loaded":
            states[unit] = {
                "active": fields.get("ActiveState", ""),
                "enabled": fields.get("UnitFileState", ""),
                "drop_ins": fields.get("DropInPaths", ""),
            }
    return states
