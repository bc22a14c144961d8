"""Running containers of engines other than the system's Docker, by the control groups of processes.

podman has no daemon, and each user may have containers or an engine of their own: nobody can be asked for all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Sequence

if TYPE_CHECKING:
    from pathlib import Path

# systemd names the groups; with the cgroupfs driver the id is a directory of its own.
GROUPS = (
    ("podman", re.compile(r"/libpod-([0-9a-f]{64})")),
    ("CRI-O", re.compile(r"/crio-([0-9a-f]{64})")),
    ("containerd", re.compile(r"/cri-containerd[-:]([0-9a-f]{64})")),
    ("nerdctl", re.compile(r"/nerdctl-([0-9a-f]{64})")),
    ("Kubernetes", re.compile(r"/kubepods/(?:[^/]+/)*([0-9a-f]{64})")),
    ("rootless Docker", re.compile(r"/user\.slice/.*/docker[-/]([0-9a-f]{64})")),
)
SHOWN_DIGITS = 12  # of an id, as the engines print it


class Container(NamedTuple):
    """A running container: its engine, its id of 64 digits, and the name of its oldest process."""

    engine: str
    id: str
    process: str

    def __str__(self) -> str:
        return "%s (%s)" % (self.id[:SHOWN_DIGITS], self.process)


def read(procfs: Path) -> List[Container]:
    """All of them, by engine and id. On a host that is a container, groups outside of it do not count."""
    root = own_groups(procfs / "1")
    found: Dict[str, Container] = {}
    for folder in process_folders(procfs):
        for path in groups(folder):
            for engine, pattern in GROUPS:
                match = pattern.search(inside(path, root))
                if match and match[1] not in found:
                    found[match[1]] = Container(engine, match[1], process_name(folder))
    return sorted(found.values())


def process_folders(procfs: Path) -> List[Path]:
    """All processes, by pid."""
    return sorted(procfs.glob("[0-9]*"), key=lambda path: int(path.name))


def inside(path: str, root: Sequence[str]) -> str:
    """The control group without those of the host itself, `root`."""
    return path[len(next((one for one in root if path.startswith(one)), "")) :]


def own_groups(folder: Path) -> List[str]:
    """Control groups of the host itself, by those of its first process, the longest first."""
    paths = {path[: -len("/init.scope")] if path.endswith("/init.scope") else path for path in groups(folder)}
    return sorted((path for path in paths if path != "/"), key=len, reverse=True)


def groups(folder: Path) -> List[str]:
    """Paths of the control groups of a process, one for each hierarchy; none if it has ended."""
    try:
        text = (folder / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2]


def process_name(folder: Path) -> str:
    """Name of a process; a question mark if it has ended."""
    try:
        return (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"
