"""Making the plan: a job and facts in, a plan out, or the reason why not. Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ddp_play.backends import choose_backend
from ddp_play.containers import container_name, create_argv
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.fabric import Endpoint, choose_fabric
from ddp_play.hostchoice import choose_hosts, slot_names
from ddp_play.plan import HostPlan, Plan, RankPlan
from ddp_play.rankenv import rank_env
from ddp_play.setting import Asked, Place, Setting
from ddp_play.tokens import ATTEMPT, HEAD_PORT, HOST_DIR, RUN_ID

if TYPE_CHECKING:
    from ddp_play.hosts import HostFacts, Problem
    from ddp_play.job import Job


def make_plan(
    job: Job, facts: tuple[HostFacts, ...], problems: tuple[Problem, ...], asked: Asked, *, wanted: int = 0
) -> Plan:
    """Bind the job to hosts. Raises UsageError or HostNotReady with the host, the reason and what to do.

    Spares fill up to what the job needs at least, or to `wanted` hosts: those that an earlier attempt had.
    """
    hosts, left_out = choose_hosts(job, facts, problems, wanted)
    runtime = job.chosen_runtime
    for host in hosts:
        _check_runtime(job, host)
    fabric = choose_fabric(hosts, fabric=job.fabric, network=job.network)
    usable_gpus = {host.name: _gpu_count(job, host) for host in hosts}
    backend = choose_backend(job.backend, gpus_per_host=usable_gpus, fabric=fabric.fabric)
    counts = {host.name: _rank_count(job, host, backend.backend) for host in hosts}
    slots = slot_names(job, hosts, counts)
    head = fabric.endpoints[hosts[0].name]
    shared = _shared_dirs(job, hosts)
    setting = Setting(
        job=job,
        runtime=runtime,
        fabric=fabric,
        backend=backend.backend,
        world_size=sum(counts.values()),
        head_addr=head.address,
        init_url=_init_url(job, head, shared, hosts[0]),
        asked=asked,
    )
    host_plans, first = [], 0
    for node, host in enumerate(hosts):
        host_plans.append(
            dataclasses.replace(
                _plan_host(setting, host, node=node, first_rank=first, count=counts[host.name], shared=shared),
                slots=slots[host.name],
            )
        )
        first += counts[host.name]
    return Plan(
        job=job.name,
        runtime=runtime,
        image=job.image if runtime == "docker" else "",
        image_id=_image_id(job, hosts) if runtime == "docker" else "",
        image_pull=job.image_pull,
        backend=backend.backend,
        backend_reason=backend.reason,
        fabric=fabric.fabric,
        fabric_reason=fabric.reason,
        network=fabric.network,
        init_method=job.init_method,
        init_url=setting.init_url,
        head=hosts[0].name,
        head_addr=head.address,
        port_range=job.port_range,
        world_size=setting.world_size,
        hosts=tuple(host_plans),
        source=job.source,
        source_shared=bool(shared),
        timeouts={
            **{
                name: float(getattr(job, name))
                for name in ("timeout", "host_timeout", "grace", "failure_grace", "max_duration", "idle_timeout")
            },
            "lease": job.chosen_lease,
        },
        signal=f"SIG{job.signal}",
        artifacts=job.artifacts,
        artifacts_max_mib=job.artifacts_max_mib,
        probe=job.probe,
        left_out=left_out,
        warnings=_warnings(job, hosts, shared),
    )


def _check_runtime(job: Job, host: HostFacts) -> None:
    if job.chosen_runtime == "process":
        if host.rank_python_problem:
            raise HostNotReady(
                f"{host.name}: {host.rank_python_problem}", hint=f"set ddp_python for {host.name} in the inventory"
            )
        return
    engine = host.engine
    if engine is None or engine.problem:
        problem = engine.problem if engine else "the engine was not asked"
        hint = "ddp-play provision installs it; or set ddp_job_runtime to process"
        if engine and engine.permission:
            hint = f"add {host.user.name} to the docker group on {host.name} and log in again, or use become (-b)"
        raise HostNotReady(f"{host.name}: {problem}", hint=hint)
    if not engine.cli:
        raise HostNotReady(f"{host.name}: the engine answers but there is no docker command", hint="install docker-cli")
    if job.image_pull == "never" and engine.image is None:
        raise HostNotReady(
            f"{host.name}: image {job.image} is not there and ddp_job_image_pull is never",
            hint="ddp-play image load -i INVENTORY",
        )


def _image_id(job: Job, hosts: tuple[HostFacts, ...]) -> str:
    """The id all hosts agree on; empty where some still have to pull. Different images are refused."""
    ids = {host.name: host.engine.image.id for host in hosts if host.engine and host.engine.image}
    if len(set(ids.values())) > 1:
        rows = "\n".join(f"  {name}: {image_id[:19]}" for name, image_id in sorted(ids.items()))
        raise HostNotReady(
            f"image {job.image} is not the same on all hosts:\n{rows}",
            hint="ddp-play image load -i INVENTORY, or name the image by its digest",
        )
    return next(iter(ids.values())) if len(ids) == len(hosts) else ""


def _gpu_count(job: Job, host: HostFacts) -> int:
    return 0 if job.gpus == "none" else len(host.gpus)


def _rank_count(job: Job, host: HostFacts, backend: str) -> int:
    gpus = _gpu_count(job, host)
    if job.ranks_per_host == "auto":
        if host.gpu_problem and job.gpus != "none" and not gpus:
            raise HostNotReady(f"{host.name}: {host.gpu_problem}", hint="set ddp_job_gpus to none to train on CPUs")
        count = gpus or (host.slots if host.slots is not None else 1)
        if count < 1:
            raise UsageError(f"{host.name}: ddp_slots is {count}; it must be at least 1")
        return count
    if "nccl" in backend and job.ranks_per_host > gpus:
        raise UsageError(
            f"{host.name}: {job.ranks_per_host} ranks on {gpus} GPU(s): nccl allows one rank per GPU",
            hint="set ddp_job_ranks_per_host to auto",
        )
    return job.ranks_per_host


def _shared_dirs(job: Job, hosts: tuple[HostFacts, ...]) -> dict[str, str]:
    """host -> its shared directory, when every host has one; where it is set it must work."""
    found = {}
    for host in hosts:
        if host.shared is None:
            continue
        if host.shared.problem:
            raise HostNotReady(
                f"{host.name}: shared directory {host.shared.path}: {host.shared.problem}",
                hint="mount it there (ddp-play provision does), or unset ddp_shared_dir",
            )
        found[host.name] = host.shared.path
    if 0 < len(found) < len(hosts):
        without = sorted({host.name for host in hosts} - set(found))
        raise UsageError(
            f"ddp_shared_dir is set for some hosts and not for {', '.join(without)}",
            hint="set it for all of them, in group_vars",
        )
    if job.init_method == "file" and not found and len({host.machine for host in hosts}) > 1:
        raise UsageError(
            "ddp_job_init_method is file and no shared directory is known",
            hint="set ddp_shared_dir to a mount that all hosts have, or use env or tcp",
        )
    return found


def _init_url(job: Job, head: Endpoint, shared: dict[str, str], head_host: HostFacts) -> str:
    if job.init_method == "env":
        return "env://"
    if job.init_method == "tcp":
        address = f"[{head.address}]" if ":" in head.address else head.address
        return f"tcp://{address}:{HEAD_PORT}"
    if shared:  # fresh per attempt: a stale file deadlocks
        return f"file://{shared[head_host.name]}/.ddp-play/{RUN_ID}/rendezvous-{ATTEMPT}"
    return f"file:///tmp/ddp-play-rendezvous-{RUN_ID}-{ATTEMPT}"


def _plan_host(
    setting: Setting, host: HostFacts, *, node: int, first_rank: int, count: int, shared: dict[str, str]
) -> HostPlan:
    job = setting.job
    source_dir = f"{shared[host.name]}/.ddp-play/{RUN_ID}/src" if shared else f"{HOST_DIR}/src"
    uid, gid = _rank_user(job, host)
    endpoint = setting.endpoint(host)
    places = [
        Place(
            host=host,
            node=node,
            rank=first_rank + local,
            local_rank=local,
            local_world_size=count,
            user=(uid, gid),
            workdir=_workdir(setting, host, source_dir),
            source_dir=source_dir if job.source else "",
            shared_dir=shared.get(host.name, ""),
        )
        for local in range(count)
    ]
    return HostPlan(
        name=host.name,
        interface=endpoint.interface,
        address=endpoint.address,
        user=(uid, gid),
        user_name=job.user or host.user.login_name,
        workdir=places[0].workdir,
        source_dir=places[0].source_dir,
        gpus=tuple(gpu.index for gpu in host.gpus) if job.gpus == "auto" else (),
        ranks=tuple(_plan_rank(setting, place) for place in places),
        shared_dir=shared.get(host.name, ""),
        sends_source=bool(job.source) and (not shared or node == 0),
        speed_mbps=next((link.speed_mbps for link in host.interfaces if link.name == endpoint.interface), None),
        rdma_ports=tuple(f"{port.device}:{port.port}" for port in host.rdma if port.active),
    )


def _rank_user(job: Job, host: HostFacts) -> tuple[int, int]:
    """Who the ranks run as: whoever connected, unless the job says otherwise and we may act for others."""
    if not job.user:
        return host.user.login_uid, host.user.login_gid
    uid, gid = (int(part) for part in job.user.split(":"))
    if host.user.uid not in (0, uid):
        raise UsageError(
            f"{host.name}: ddp_job_user is {job.user}, and {host.user.name} may not start ranks for others",
            hint="use become (-b), connect as that user, or unset ddp_job_user",
        )
    return uid, gid


def _workdir(setting: Setting, host: HostFacts, source_dir: str) -> str:
    if setting.job.workdir:
        return setting.job.workdir
    if setting.job.source:
        return "/workspace" if setting.docker else source_dir
    return "/" if setting.docker else host.user.home


def _plan_rank(setting: Setting, place: Place) -> RankPlan:
    argv = fill_placeholders(
        setting.job.command,
        {
            "rank": str(place.rank),
            "local_rank": str(place.local_rank),
            "world_size": str(setting.world_size),
            "local_world_size": str(place.local_world_size),
            "init_method": setting.init_url,
            "backend": setting.backend,
            "head_addr": setting.head_addr,
            "head_port": HEAD_PORT,
            "run_id": RUN_ID,
            "python": "python" if setting.docker else place.host.rank_python,
        },
    )
    env = rank_env(setting, place)
    if not setting.docker:
        return RankPlan(place.rank, place.local_rank, argv, env)
    create = create_argv(setting, place, env_names=tuple(var.name for var in env), argv=argv)
    return RankPlan(place.rank, place.local_rank, argv, env, container_name(place.rank), create)


def fill_placeholders(command: tuple[str, ...], values: dict[str, str]) -> tuple[str, ...]:
    """Replace `{rank}` and its like; every other brace stays as it is, so JSON arguments need no quoting."""
    filled = []
    for word in command:
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)  # noqa: PLW2901 - folding over the names
        filled.append(word)
    return tuple(filled)


def _warnings(job: Job, hosts: tuple[HostFacts, ...], shared: dict[str, str]) -> tuple[str, ...]:
    found = []
    if job.restarts and not shared:
        found.append(
            "ddp_job_restarts without ddp_shared_dir: each attempt has an empty working directory, so training starts "
            "from scratch unless its checkpoints go to a mount that all hosts have (ddp_job_mounts)"
        )
    for host in hosts:
        if abs(host.clock_offset_s) > 2:
            found.append(f"{host.name}: its clock is {host.clock_offset_s:+.1f} s off the controller's")
        for gpu in host.gpus if job.gpus == "auto" else ():
            if gpu.users:
                found.append(f"{host.name}: GPU {gpu.index} is in use by {', '.join(gpu.users)}")
        if host.gpu_problem and job.gpus == "auto":
            found.append(f"{host.name}: {host.gpu_problem}")
    low, high = job.port_range
    first, last = hosts[0].ephemeral_ports
    if low <= last and high >= first:
        found.append(
            f"ddp_job_port_range {low}-{high} overlaps {hosts[0].name}'s ephemeral ports {first}-{last}: "
            "any program there may take the port first"
        )
    return tuple(found)
