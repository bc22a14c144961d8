"""Status of a lab: container state of each host, and whether its sshd answers."""

from __future__ import annotations

import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ddp_play.lab.docker_client import connect
from ddp_play.lab.host_containers import find_hosts
from ddp_play.lab.state import lab_state

if TYPE_CHECKING:
    from docker.models.containers import Container

    from ddp_play.lab.layout import Host

_SSH_TIMEOUT_S = 5.0  # of a busy machine


@dataclass(frozen=True)
class HostStatus:
    """Status of a host; `state`: its container's (`running`, `exited`, ...) or `missing`; `ssh`: sshd sent a banner."""

    name: str
    addresses: tuple[str, ...]
    slots: int
    state: str
    ssh: bool


@dataclass(frozen=True)
class LabStatus:
    """Status of a lab; `state`: up (all hosts answer), partial, or absent."""

    name: str
    state: str
    directory: str
    inventory: str
    hosts: tuple[HostStatus, ...]

    def as_dict(self) -> dict[str, object]:
        """Document of `lab status --json`."""
        return asdict(self)


def read_status(name: str) -> LabStatus:
    """Query the engine and port 22 of every host. Raises HostNotReady if the engine does not answer."""
    client = connect()
    state = lab_state(name)
    plan = state.load_plan()
    found = find_hosts(client, name)
    hosts = tuple(_host_status(host, found.get(host.name)) for host in plan.hosts) if plan else ()
    if plan is None and found:
        hosts = tuple(HostStatus(host, (), 0, container.status, ssh=False) for host, container in found.items())
    return LabStatus(name, _overall(hosts, bool(found)), str(state.directory), str(state.inventory), hosts)


def _overall(hosts: tuple[HostStatus, ...], found: bool) -> str:
    if not found:
        return "absent"
    return "up" if all(host.ssh for host in hosts) else "partial"


def _host_status(host: Host, container: Container | None) -> HostStatus:
    state = container.status if container else "missing"
    ssh = state == "running" and _answers(host.addresses[0])
    return HostStatus(host.name, host.addresses, host.slots, state, ssh)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=_SSH_TIMEOUT_S) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
