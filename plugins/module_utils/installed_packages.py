"""Names of the packages on a host, as its package manager lists them."""

from __future__ import annotations

import shutil
from typing import List, Set

DPKG = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n"]
RPM = ["rpm", "--query", "--all", "--queryformat", "%{NAME}\n"]


def uses_apt() -> bool:
    """Whether the host installs with apt. A host with dnf may have dpkg too, as a tool."""
    return bool(shutil.which("apt-get"))


def query() -> List[str]:
    """The command that lists the packages."""
    return DPKG if uses_apt() else RPM


def read(text: str) -> Set[str]:
    """Names in the output of the query; also of packages that were removed and left their configuration."""
    return {line.split()[0] for line in text.splitlines() if not line.endswith(" not-installed")}


def read_working(text: str) -> Set[str]:
    """Names in the output of the query without packages that were removed, or are installed by half."""
    rows = [line.split() for line in text.splitlines() if line.split()]
    return {row[0] for row in rows if row[1:] in ([], ["installed"])}
