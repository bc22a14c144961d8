"""Host facts: what the program on a host reports about it, as types."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface. `addresses` carry their prefix length."""

    name: str
    link: str  # ethernet | infiniband | loopback | other
    addresses: tuple[str, ...] = ()
    up: bool = True
    speed_mbps: int | None = None
    mtu: int = 1500
    virtual: bool = False
    bridge: bool = False
    default_route: bool = False

    def networks(self) -> tuple[tuple[str, str], ...]:
        """(network, address) of every address: ("10.0.0.0/24", "10.0.0.5")."""
        parsed = (ipaddress.ip_interface(address) for address in self.addresses)
        return tuple((str(item.network), str(item.ip)) for item in parsed)


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port of an RDMA device."""

    device: str
    port: int
    state: str
    rate_gbps: float
    link_layer: str
    interfaces: tuple[str, ...] = ()

    @property
    def active(self) -> bool:
        """Is the port in the state ACTIVE, in which it carries traffic?"""
        return self.state == "ACTIVE"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as nvidia-smi lists it; `users` are the compute processes on it."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    users: tuple[str, ...] = ()
    numa_node: int = -1  # as the kernel tells it: -1 if it does not know


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node with CPUs."""

    node: int
    cpus: str  # that ranks may use, as the kernel lists them: `0-31,64-95`
    socket: int
    memory: bool  # has memory that ranks may use
    whole: bool = True  # ranks may use all its CPUs


@dataclass(frozen=True, slots=True)
class Image:
    """A container image on a host."""

    id: str
    digests: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    torch: str = ""  # version, where the image has it in its environment


@dataclass(frozen=True, slots=True)
class Engine:
    """The Docker engine of a host."""

    version: str
    problem: str = ""
    permission: bool = False  # the problem is permission on its socket
    cli: bool = True
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file or directory as the ranks' user finds it on a host."""

    kind: str  # sif, squashfs, ext3, sandbox; empty if it is none of them
    id: str = ""  # that a SIF file got when it was made, equal in all its copies
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Apptainer:
    """Apptainer of a host, or SingularityCE under the name that it gives itself."""

    program: str  # path; empty if there is none
    name: str = ""  # apptainer, singularity-ce
    version: str = ""
    problem: str = ""
    image: ImageFile | None = None  # of a job that names a path


@dataclass(frozen=True, slots=True)
class SharedDir:
    """Shared directory as one host sees it."""

    path: str
    exists: bool
    writable: bool
    problem: str = ""
    permission: bool = False  # the problem is permission to write there
    fstype: str = ""


@dataclass(frozen=True, slots=True)
class User:
    """User on the host; `login_*` is the user of the connection, before become."""

    name: str
    home: str
    uid: int
    gid: int
    groups: tuple[tuple[str, int], ...]
    login_uid: int
    login_gid: int
    login_name: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why, since when and by whom a host is in quarantine, and what has to pass before it is released."""

    why: str
    own: bool = False  # only the runs of this user are kept away
    level: str = ""  # of the check that found it; empty if somebody decided it without one
    checks: tuple[str, ...] = ()  # that failed
    num_hosts: int = 0  # that the host was compared with, itself included


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts of one host of the inventory, with the host variables that ddp-play uses."""

    name: str
    hostname: str
    machine: str
    python: str
    python_version: str
    user: User
    cpus: int
    memory_mib: int
    disk_free_mib: int
    nofile_hard: int
    clock_offset_s: float
    interfaces: tuple[Interface, ...]
    rdma: tuple[RdmaPort, ...]
    gpus: tuple[Gpu, ...]
    gpu_problem: str
    resolves_to: tuple[str, ...]
    nccl_conf: bool
    ephemeral_ports: tuple[int, int]
    rank_python: str
    rank_python_problem: str
    engine: Engine | None = None
    apptainer: Apptainer | None = None
    shared: SharedDir | None = None
    slots: int | None = None
    interface: str | None = None
    runs: tuple[dict[str, Any], ...] = ()
    rank_torch: str = ""  # version of torch in rank_python; queried only if ranks are processes
    rank_mpi: str = ""  # version of mpi4py, likewise
    state_dir: str = ""
    numa_nodes: tuple[NumaNode, ...] = ()
    numactl: bool = False  # is installed
    state_dir_reason: str = ""  # why it is not the usual directory
    drained: str = ""  # why the host takes no new runs
    quarantine: Quarantine | None = None  # then `drained` says so too

    @property
    def infiniband_ports(self) -> tuple[RdmaPort, ...]:
        """Active InfiniBand ports. RoCE ports, for example of a storage network, have the link layer Ethernet."""
        return tuple(port for port in self.rdma if port.active and port.link_layer != "Ethernet")

    def interface_named(self, name: str) -> Interface | None:
        """Its interface of this name; None if it has none."""
        return next((link for link in self.interfaces if link.name == name), None)


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a host has no facts."""

    host: str
    kind: str  # unreachable | host_key | credentials | become | python | other
    message: str
    hint: str = ""


def clock_offset(clock: float, *, sent: float, received: float) -> float:
    """Seconds that a host's clock is ahead of the controller's. It read it between these times: within them it is 0."""
    return clock - min(max(clock, sent), received)


def facts_from_json(name: str, data: dict[str, Any]) -> HostFacts:
    """HostFacts from the answer of the program plus `inventory` (host variables) and `clock_offset_s`."""
    inventory = data.get("inventory") or {}
    user = data["user"]
    shared = data.get("shared")
    return HostFacts(
        name=name,
        hostname=data["hostname"],
        machine=data["machine"],
        python=data["python"],
        python_version=data["python_version"],
        user=User(**{**user, "groups": tuple(sorted(user["groups"].items()))}),
        cpus=data["cpus"],
        memory_mib=data["memory_mib"],
        disk_free_mib=data["disk_free_mib"],
        nofile_hard=data["nofile_hard"],
        clock_offset_s=data.get("clock_offset_s", 0.0),
        interfaces=tuple(Interface(**{**row, "addresses": tuple(row["addresses"])}) for row in data["interfaces"]),
        rdma=tuple(RdmaPort(**{**row, "interfaces": tuple(row["interfaces"])}) for row in data["rdma"]),
        gpus=tuple(_gpu(row) for row in data["gpus"]),
        gpu_problem=data["gpu_problem"],
        resolves_to=tuple(data["resolves_to"]),
        nccl_conf=data["nccl_conf"],
        ephemeral_ports=(data["ephemeral_ports"][0], data["ephemeral_ports"][1]),
        rank_python=data["rank_python"]["path"],
        rank_python_problem=data["rank_python"]["problem"],
        rank_torch=data["rank_python"].get("torch", ""),
        rank_mpi=data["rank_python"].get("mpi4py", ""),
        engine=_engine(data.get("engine")),
        apptainer=_apptainer(data.get("apptainer")),
        shared=SharedDir(**shared) if shared else None,
        slots=inventory.get("slots"),
        interface=inventory.get("interface"),
        runs=tuple(data.get("runs", ())),
        numa_nodes=tuple(NumaNode(**row) for row in data["numa"]["nodes"]),
        numactl=data["numa"]["numactl"],
        **_state_dir(data.get("state_dir") or {}),
        drained=data.get("drained", ""),
        quarantine=_quarantine(data.get("quarantine")),
    )


def _state_dir(data: dict[str, str]) -> dict[str, str]:
    return {"state_dir": data.get("path", ""), "state_dir_reason": data.get("reason", "")}


def _quarantine(data: dict[str, Any] | None) -> Quarantine | None:
    if not data:
        return None
    checks = tuple(str(name) for name in data["checks"])
    return Quarantine(str(data["why"]), bool(data["own"]), str(data["level"]), checks, int(data["num_hosts"]))


def _gpu(data: dict[str, Any]) -> Gpu:
    names = ("index", "uuid", "model", "memory_mib", "numa_node")
    return Gpu(**{name: data[name] for name in names}, users=tuple(data["users"]))


def _engine(data: dict[str, Any] | None) -> Engine | None:
    if data is None:
        return None
    image = data.get("image")
    return Engine(
        version=data["version"],
        problem=data["problem"],
        permission=data.get("permission", False),
        cli=data.get("cli", True),
        image=_image(image) if image else None,
    )


def _apptainer(data: dict[str, Any] | None) -> Apptainer | None:
    if data is None:
        return None
    image = data.get("image")
    return Apptainer(**{**data, "image": ImageFile(**image) if image else None})


def _image(data: dict[str, Any]) -> Image:
    return Image(data["id"], tuple(data["digests"]), tuple(data["entrypoint"]), data.get("torch", ""))
