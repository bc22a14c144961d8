"""Disguise a container host as Ubuntu: os-release, uname, apt with the stub archive only, the vendors' addresses.

Packages of the lab's Debian stay installed. This shows the roles with apt and the names of Ubuntu, not with Ubuntu.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.roles_gpu import apt_vendors, disguise, vendor_data

ARCHIVE = "Types: deb\nURIs: file:{folder}\nSuites: /\nSigned-By: {key}\n"
KEY = f"{disguise.VENDORS}/key.asc"  # where the user _apt can read it


def is_archive(name: str) -> bool:
    """Whether a repository is the distribution's own, which a new host has already."""
    return name.endswith("-archive")


def build(host: disguise.Machine, platform: str) -> None:
    """Write every repository of the platform to the host, below the root of the stand-in server."""
    suite = vendor_data.load()["platforms"][platform]["os_release"]["VERSION_CODENAME"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "vendors")
        apt_vendors.write(root, disguise.repositories(platform), suite)
        host.put(root, disguise.VENDORS)
    host.sh(f"chmod -R a+rX {disguise.VENDORS}")


def become(host: disguise.Machine, platform: str) -> None:
    """Replace os-release and uname, and leave no package source but the archive."""
    row = vendor_data.load()["platforms"][platform]
    uname = disguise.UNAME.format(kernel=row["kernel"])
    release = "\n".join(f'{key}="{value}"' for key, value in row["os_release"].items())
    lines = ["set -e", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*"]
    for name, repository in disguise.repositories(platform):
        if is_archive(name):
            text = ARCHIVE.format(folder=disguise.place(repository["url"]), key=KEY)
            lines.append(f"cat > /etc/apt/sources.list.d/ubuntu.sources <<'R'\n{text}R")
    lines += [
        "mkdir -p /opt/hidden",
        f"rm -f /etc/os-release; cat > /etc/os-release <<'R'\n{release}\nR",
        "echo bookworm/sid > /etc/debian_version",
        # Debian's libc breaks Ubuntu 22.04's chrony; Ubuntu's does not.
        "sed -i '/^Breaks:/s/chrony (<< [^)]*), *//' /var/lib/dpkg/status",
        f"mv /usr/bin/uname /opt/hidden/uname; cat > /usr/bin/uname <<'R'\n{uname}R",
        "chmod +x /usr/bin/uname; apt-get -qq update",
    ]
    host.sh("\n".join(lines))


def disguise_host(host: disguise.Machine, platform: str) -> None:
    """All of it; the server is started by disguise.start_vendors."""
    build(host, platform)
    disguise.serve(host, platform)
    become(host, platform)
