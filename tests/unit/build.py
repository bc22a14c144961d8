"""Values for tests: hosts as discovery would describe them, jobs, plans. Every argument has a harmless default."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import SOURCE_HEADER
from ddp_play.planning.host_facts import (
    Apptainer,
    Engine,
    Gpu,
    HostFacts,
    Image,
    ImageFile,
    Interface,
    NumaNode,
    RdmaPort,
    SharedDir,
    User,
)
from ddp_play.planning.job import Job, parse_job
from ddp_play.planning.planner import make_plan
from ddp_play.planning.rank_context import Caller

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import Plan

LOOPBACK = Interface("lo", "loopback", ("127.0.0.1/8", "::1/128"), virtual=True, mtu=65536)
DOCKER0 = Interface("docker0", "ethernet", ("172.17.0.1/16",), virtual=True, bridge=True, speed_mbps=10000)
SIF_FILE = ImageFile("sif", "ab" * 16)


def ethernet(address: str = "", *, name: str = "eth0", speed: int | None = 1000, **more: Any) -> Interface:
    """An ethernet interface; the default is that of the default route."""
    return Interface(
        name, "ethernet", (address,) if address else (), speed_mbps=speed, **{"default_route": name == "eth0", **more}
    )


def infiniband(address: str = "", *, name: str = "ib0", speed: int | None = 200000, **more: Any) -> Interface:
    """An IPoIB interface."""
    return Interface(name, "infiniband", (address,) if address else (), speed_mbps=speed, mtu=2044, **more)


def gpus(count: int, *, users: tuple[str, ...] = ()) -> tuple[Gpu, ...]:
    """`count` GPUs, all used by `users`."""
    return tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", 81559, users) for index in range(count))


def numa_host(name: str = "h1", *, on: tuple[int, ...] = (0, 0, 1, 1), **fields: Any) -> HostFacts:
    """Two sockets with two NUMA nodes each, four CPUs a node, the last without memory. `on`: node of each GPU."""
    cpus = ("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15")
    nodes = tuple(NumaNode(node, text, socket=node // 2, memory=node < 3) for node, text in enumerate(cpus))
    found = tuple(dataclasses.replace(gpu, numa_node=node) for gpu, node in zip(gpus(len(on)), on, strict=True))
    return host(name, **{"cpus": 16, "gpus": found, "numa_nodes": nodes, "numactl": True, **fields})


def rdma(device: str = "mlx5_0", state: str = "ACTIVE") -> RdmaPort:
    """One InfiniBand port."""
    return RdmaPort(device, 1, state, 400.0, "InfiniBand", ("ib0",))


def engine(*, image: str | None = "sha256:" + "a" * 64, **more: Any) -> Engine:
    """A healthy engine that has the image."""
    return Engine("28.1.0", image=Image(image) if image else None, **more)


def apptainer(*, image: ImageFile | None = SIF_FILE, **more: Any) -> Apptainer:
    """An Apptainer of today that finds the image file."""
    usual = {"program": "/usr/bin/apptainer", "name": "apptainer", "version": "1.4.5"}
    return Apptainer(**{**usual, **more}, image=image)


def user(name: str = "ops", uid: int = 1000) -> User:
    """Who connected; no become."""
    return User(name, f"/home/{name}", uid, uid, (("docker", 998), (name, uid)), uid, uid, name)


def host(name: str = "h1", address: str = "10.0.0.1/24", **fields: Any) -> HostFacts:
    """A host with one ethernet network, 8 CPUs and nothing else; `fields` replace any of its facts."""
    facts = HostFacts(
        name=name,
        hostname=name,
        machine=f"boot-{name}/net:[1]",
        python="/usr/bin/python3",
        python_version="3.11.2",
        user=user(),
        cpus=8,
        memory_mib=32000,
        disk_free_mib=100000,
        nofile_hard=1048576,
        clock_offset_s=0.0,
        interfaces=(LOOPBACK, ethernet(address)),
        rdma=(),
        gpus=(),
        gpu_problem="",
        resolves_to=("127.0.1.1",),
        nccl_conf=False,
        ephemeral_ports=(32768, 60999),
        rank_python="/usr/bin/python3",
        rank_python_problem="",
    )
    return dataclasses.replace(facts, **fields)


def hosts(count: int, **fields: Any) -> tuple[HostFacts, ...]:
    """`count` hosts on one ethernet."""
    return tuple(host(f"h{n}", f"10.0.{n // 250}.{n % 250 + 1}/16", **fields) for n in range(1, count + 1))


def slots(*counts: int | None, **fields: Any) -> tuple[HostFacts, ...]:
    """A host for each count, with so many slots."""
    return tuple(
        dataclasses.replace(item, slots=count) for item, count in zip(hosts(len(counts), **fields), counts, strict=True)
    )


def ib_host(name: str, number: int, *, num_gpus: int = 8, **fields: Any) -> HostFacts:
    """A GPU server: 1 Gb/s ethernet for people, InfiniBand for ranks."""
    links = (LOOPBACK, ethernet(f"192.168.1.{number}/24"), infiniband(f"10.10.0.{number}/24"), DOCKER0)
    return host(name, **{"interfaces": links, "rdma": (rdma(),), "gpus": gpus(num_gpus), "cpus": 64, **fields})


def shared(path: str = "/shared", problem: str = "") -> SharedDir:
    """A shared directory that works, unless there is a problem with it."""
    return SharedDir(
        path,
        exists=problem != "does not exist",
        writable=not problem,
        problem=problem,
        permission=problem == "Permission denied",
        fstype="nfs4",
    )


def source_archive(*files: tuple[str, str, str]) -> bytes:
    """Archive of a source: (path, content, target of a link)."""
    return b"".join(
        SOURCE_HEADER.pack(len(os.fsencode(name)), len(target), 0o644, len(content), 10**18)
        + os.fsencode(name)
        + target.encode()
        + content.encode()
        for name, content, target in files
    )


def job(**values: Any) -> Job:
    """A job as train.yml would give it."""
    return parse_job({"command": ["python", "train.py"], **values})


def plan(
    *facts: HostFacts,
    caller_env: dict[str, str] | None = None,
    secret_names: tuple[str, ...] = (),
    secret_env: tuple[str, ...] = (),
    problems: tuple[Any, ...] = (),
    **values: Any,
) -> Plan:
    """The plan of a job over these hosts."""
    return make_plan(job(**values), facts or (host(),), problems, Caller(caller_env or {}, secret_names, secret_env))


def env(made: Plan, rank: int = 0) -> dict[str, str]:
    """A rank's environment as name -> value."""
    return {var.name: var.value for var in made.host_of(rank).rank(rank).env}
