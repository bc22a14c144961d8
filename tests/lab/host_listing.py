"""Listing of a host, to be compared with a later one: `python3 host_listing.py` there prints it as JSON.

Standard library only. Every row is `SECTION KEY: VALUE` in the comparison: files with type, owner, mode and checksum,
packages with version, hold and mark, units, kernel settings, exports, firewall.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

# Kernel file systems, what systemd and the engine mount for running programs, and what empties itself.
SKIPPED = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp")
# Counters and ids in the directories of kernel settings; veth interfaces belong to running containers.
VOLATILE = re.compile(r"(^net/netfilter/nf_conntrack_count$|/veth[^/]*/|/route/flush$|_entropy|^net/.*/stat/)")
COUNTERS = re.compile(r"counter packets \d+ bytes \d+|# handle \d+")
LOGIN = re.compile(r"session-.*scope$|user@|user-runtime-dir@|run-user-")
UNIT_TYPES = "--type=service,socket,timer,path,mount"


def output(*argv: str) -> str:
    """What a command prints; empty if the host does not have it."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def entry(path: Path) -> str:
    """Type, owner, group, mode and content of a path."""
    info = path.lstat()
    owner = f"{info.st_uid}:{info.st_gid} {stat.S_IMODE(info.st_mode):04o}"
    if stat.S_ISLNK(info.st_mode):
        return f"link {owner} -> {path.readlink()}"
    if stat.S_ISDIR(info.st_mode):
        return f"directory {owner}"
    if not stat.S_ISREG(info.st_mode):
        return f"special {owner}"
    with path.open("rb") as stream:
        return f"file {owner} {hashlib.file_digest(stream, 'sha256').hexdigest()}"


def files(top: str = "/") -> dict[str, str]:
    """Every path on the host's own file systems below `top`."""
    found = {}
    for folder, names, leaves in os.walk(top):
        names[:] = [name for name in names if str(Path(folder, name)) not in SKIPPED]
        for path in (Path(folder, name) for name in names + leaves):
            try:
                found[str(path)] = entry(path)
            except OSError as error:  # gone in between
                found[str(path)] = f"unreadable ({error.strerror})"
    return found


def packages() -> dict[str, str]:
    """Version, state with hold, and mark (auto or manual) of every package dpkg knows; of rpm only the version."""
    if not shutil.which("dpkg-query"):
        found = output("rpm", "--query", "--all", "--queryformat", "%{NAME}-%{VERSION}-%{RELEASE}\n").split()
        return dict.fromkeys(found, "installed")
    text = output("dpkg-query", "--show", "--showformat=${binary:Package} ${Version} ${db:Status-Abbrev}\n")
    no_caches = ("-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=")  # which would be new files
    manual = set(output("apt-mark", *no_caches, "showmanual").split())
    rows = (line.split(" ", 1) for line in text.splitlines())
    return {name: f"{rest.strip()} {'manual' if name in manual else 'auto'}" for name, rest in rows}


def units() -> dict[str, str]:
    """Enablement of every unit file, and which units are active or failed, but those that start on demand (static).

    An inactive unit is listed by systemd only while another one refers to it.
    """
    found = {}
    for line in output("systemctl", "list-unit-files", "--no-legend", "--no-pager").splitlines():
        found[line.split()[0]] = line.split()[1]
    shown = output("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", UNIT_TYPES)
    for line in shown.splitlines():
        name, load, active = line.split()[:3]
        if load != "not-found" and active != "inactive" and found.get(name) != "static":
            found[name] = f"{found.get(name, '-')} {active}"
    return {name: state for name, state in found.items() if not LOGIN.match(name)}


def settings() -> dict[str, str]:
    """Kernel settings of the network, which every host has for itself, container or not."""
    found = {}
    for path in Path("/proc/sys/net").rglob("*"):
        name = str(path.relative_to("/proc/sys"))
        if path.is_file() and not VOLATILE.search(name):
            try:
                found[name] = path.read_text().strip()
            except (OSError, ValueError):  # write-only
                continue
    return found


def lines(text: str) -> dict[str, str]:
    """The text as numbered rows."""
    return {f"{number:04d}": line for number, line in enumerate(text.splitlines())}


def listing() -> dict[str, dict[str, str]]:
    """All sections."""
    return {
        "file": files(),
        "package": packages(),
        "unit": units(),
        "setting": settings(),
        "export": lines(output("exportfs", "-s")),
        "firewall": lines(COUNTERS.sub("counter", output("nft", "list", "ruleset"))),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(listing()))
