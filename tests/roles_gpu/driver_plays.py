"""Plays of role nvidia_driver on a container host with a stub repository, and what a host then has."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.roles_gpu import mirrors
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.roles_gpu.hosts import Host, Outcome

NEWEST_580 = "580.178.04"
LOADED = Hardware(loaded=NEWEST_580)
MIRROR: dict[str, Any] = {
    "ddp_mirror_url": f"file://{mirrors.GOOD}",
    "__nvidia_driver_sysfs": "/opt/hardware/sys",
    "__nvidia_driver_procfs": "/opt/hardware/proc",
}


def play(host: Host, *flags: str, tasks_from: str = "main", **changes: Any) -> Outcome:
    variables = MIRROR | {f"nvidia_driver_{key}": value for key, value in changes.items()}
    return host.play("nvidia_driver", variables, *flags, tasks_from=tasks_from)


def versions(host: Host) -> dict[str, str]:
    form = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
    out = host.sh(f"dpkg-query -W -f '{form}' '*nvidia*' libcuda1", check=False)
    rows = (line.split("\t") for line in out.splitlines())
    return {name: version for name, version, status in rows if status == "installed"}


@contextmanager
def rank_running(host: Host) -> Iterator[None]:
    """A guard's command line, as the roles know it."""
    host.sh("echo 'import time; time.sleep(900)' > /srv/wait.py")
    host.sh("systemd-run -q --unit=rank --uid=nobody python3 -I -S /srv/wait.py guard /home/alice/night")
    try:
        yield
    finally:
        host.sh("systemctl stop rank")


@contextmanager
def unreachable(host: Host) -> Iterator[None]:
    """The repository cannot be reached."""
    host.sh(f"mv {mirrors.STUB} /srv/away")
    try:
        yield
    finally:
        host.sh(f"mv /srv/away {mirrors.STUB}")
