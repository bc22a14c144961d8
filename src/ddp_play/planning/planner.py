"""Plan of a job, made from the job and host facts; an error with the reason where there can be none. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.backend import choose_backend
from ddp_play.planning.fabric import choose_fabric
from ddp_play.planning.host_differences import check_infiniband, check_torch, differences, moved_state
from ddp_play.planning.host_ranks import plan_host
from ddp_play.planning.host_selection import choose_hosts, slot_names
from ddp_play.planning.numa import check_numa
from ddp_play.planning.plan_document import Plan
from ddp_play.planning.rank_context import RankContext
from ddp_play.planning.refused_hosts import Refused, refuse_all
from ddp_play.planning.rendezvous import choose_rendezvous, needs_shared_file
from ddp_play.planning.runtime_problems import check_runtime, image_differences, unused_limits
from ddp_play.planning.torchrun import check_torchrun

if TYPE_CHECKING:
    from ddp_play.planning.backend import BackendChoice
    from ddp_play.planning.host_facts import HostFacts, Problem, SharedDir, User
    from ddp_play.planning.job import Job
    from ddp_play.planning.rank_context import Caller

# Times of the job in the plan, in seconds. The lease is not here because it has its own rule (Job.chosen_lease).
TIMEOUTS = ("timeout", "host_timeout", "grace", "failure_grace", "max_duration", "warn_before", "idle_timeout")
GPU_REMEDY = "nvidia-smi on HOSTS shows the reason; set ddp_job_gpus to none to train on CPUs"


def make_plan(
    job: Job, facts: tuple[HostFacts, ...], problems: tuple[Problem, ...], caller: Caller, *, wanted: int = 0
) -> Plan:
    """Bind the job to hosts. Raises UsageError or HostNotReady with the host, the reason and the remedy.

    Spares are used up to the minimum number of hosts of the job, or up to `wanted`: the number of an earlier attempt.
    """
    hosts, left_out = choose_hosts(job, facts, problems, wanted)
    check_runtime(job, hosts)
    check_torch(hosts)
    context = _decide(job, hosts, caller)
    if context.torchrun:
        check_torchrun(job)
    check_numa(job)
    return _document(context, left_out)


def _decide(job: Job, hosts: tuple[HostFacts, ...], caller: Caller) -> RankContext:
    """Make every decision that all ranks share; each step uses results of earlier ones."""
    fabric = choose_fabric(hosts, fabric=job.fabric, network=job.network)
    backend = _choose_backend(job, hosts, fabric.fabric)
    check_infiniband(job, hosts, backend=backend.backend, fabric=fabric.fabric)
    ranks = _number_ranks(job, hosts, backend.backend)
    shared = _shared_dirs(job, hosts)
    head = hosts[0].name
    return RankContext(
        job=job,
        hosts=hosts,
        fabric=fabric,
        backend_choice=backend,
        ranks=ranks,
        slots=slot_names(job, hosts, {name: len(numbers) for name, numbers in ranks.items()}),
        shared_dirs=shared,
        rendezvous=choose_rendezvous(
            job,
            backend=backend.backend,
            head_addr=fabric.endpoints[head].address,
            shared_dir=shared.get(head, ""),
        ),
        caller=caller,
    )


def _document(context: RankContext, left_out: tuple[tuple[str, str], ...]) -> Plan:
    """The plan document: the shared decisions and the part of each host."""
    job, fabric, rendezvous = context.job, context.fabric, context.rendezvous
    hosts = tuple(plan_host(context, node) for node in range(len(context.hosts)))
    return Plan(
        job=job.name,
        runtime=job.chosen_runtime,
        image=job.image if context.in_image else "",
        image_id=_image_id(job, context.hosts) if context.in_image else "",
        image_pull=job.image_pull,
        backend=context.backend,
        backend_reason=context.backend_choice.reason,
        fabric=fabric.fabric,
        fabric_reason=fabric.reason,
        network=fabric.network,
        init_method=job.init_method,
        init_url=rendezvous.init_url,
        launcher=job.launcher,
        init_reason=rendezvous.reason,
        store_url=rendezvous.store_url,
        script=rendezvous.script,
        head=hosts[0].name,
        head_addr=context.head_addr,
        port_range=job.port_range,
        world_size=context.world_size,
        hosts=hosts,
        source=job.source,
        source_shared=bool(context.shared_dirs),
        timeouts={**{name: float(getattr(job, name)) for name in TIMEOUTS}, "lease": job.chosen_lease},
        signal=f"SIG{job.signal}",
        warn_signal=f"SIG{job.warn_signal}",
        samples_s=float(job.samples),
        artifacts=job.artifacts,
        artifacts_max_mib=job.artifacts_max_mib,
        probe=job.probe,
        check=job.check,
        left_out=left_out,
        warnings=(*_warnings(context), *moved_state(context.hosts), *differences(context.hosts, fabric)),
    )


def _image_id(job: Job, hosts: tuple[HostFacts, ...]) -> str:
    """Image id, the same on all hosts; empty while a host still has to pull, or if files of Apptainer's differ.

    HostNotReady if images of Docker's differ.
    """
    if job.chosen_runtime == "apptainer":
        files = {host.apptainer.image.id for host in hosts if host.apptainer and host.apptainer.image}
        return next(iter(files)) if len(files) == 1 else ""
    ids = {host.name: host.engine.image.id for host in hosts if host.engine and host.engine.image}
    if len(set(ids.values())) > 1:
        rows = "\n".join(f"  {name}: {image_id[:19]}" for name, image_id in sorted(ids.items()))
        raise HostNotReady(
            f"image {job.image} is not the same on all hosts:\n{rows}",
            hint=f"ddp-play image load -i INVENTORY --image {job.image}, or name the image by its digest",
        )
    return next(iter(ids.values())) if len(ids) == len(hosts) else ""


def _choose_backend(job: Job, hosts: tuple[HostFacts, ...], fabric: str) -> BackendChoice:
    ranks_are_processes = job.chosen_runtime == "process" and job.launcher == "ranks"
    return choose_backend(
        job.backend,
        gpus_per_host={host.name: _gpu_count(job, host) for host in hosts},
        fabric=fabric,
        bare_ib=job.fabric != "ethernet" and not job.network and all(host.infiniband_ports for host in hosts),
        has_mpi=ranks_are_processes and all(host.rank_mpi for host in hosts),
    )


def _gpu_count(job: Job, host: HostFacts) -> int:
    return 0 if job.gpus == "none" else len(host.gpus)


def _number_ranks(job: Job, hosts: tuple[HostFacts, ...], backend: str) -> dict[str, range]:
    """Ranks by host, numbered host by host."""
    refuse_all(row for row in (gpu_problem(job, host) for host in hosts) if row is not None)
    found, first = {}, 0
    for host in hosts:
        found[host.name] = range(first, first + rank_count(job, host, backend))
        first = found[host.name].stop
    return found


def gpu_problem(job: Job, host: HostFacts) -> Refused | None:
    """Why the number of ranks of this host cannot follow its GPUs."""
    if job.ranks_per_host == "auto" and host.gpu_problem and job.gpus != "none" and not host.gpus:
        return Refused(host.name, host.gpu_problem, GPU_REMEDY)
    return None


def rank_count(job: Job, host: HostFacts, backend: str) -> int:
    """Ranks of the job on this host. UsageError if its GPUs do not suffice."""
    gpus = _gpu_count(job, host)
    if job.ranks_per_host == "auto":
        count = gpus or (host.slots if host.slots is not None else 1)
        if count < 1:
            raise UsageError(
                f"{host.name}: ddp_slots is {count}; it must be at least 1",
                hint=f"correct ddp_slots of {host.name} in the inventory",
            )
        return count
    if "nccl" in backend and job.ranks_per_host > gpus:
        raise UsageError(
            f"{host.name}: {job.ranks_per_host} ranks on {gpus} GPU(s): nccl allows one rank per GPU",
            hint="set ddp_job_ranks_per_host to auto",
        )
    return job.ranks_per_host


def _shared_dirs(job: Job, hosts: tuple[HostFacts, ...]) -> dict[str, str]:
    """Shared directory by host: set for all hosts or for none, and usable wherever it is set."""
    refuse_all(
        Refused(
            host.name,
            f"shared directory {host.shared.path}: {host.shared.problem}",
            f"{what_makes_usable(host.shared, host.user)}, or unset ddp_shared_dir (-e ddp_shared_dir=)",
        )
        for host in hosts
        if host.shared is not None and host.shared.problem
    )
    found = {host.name: host.shared.path for host in hosts if host.shared is not None}
    if 0 < len(found) < len(hosts):
        without = sorted({host.name for host in hosts} - set(found))
        raise UsageError(
            f"ddp_shared_dir is set for some hosts and not for {', '.join(without)}",
            hint="set it for all of them, in group_vars",
        )
    if needs_shared_file(job) and not found and len({host.machine for host in hosts}) > 1:
        which = "ddp_job_init_method" if job.init_method == "file" else "ddp_job_store"
        raise UsageError(
            f"{which} is file and no shared directory is known",
            hint="set ddp_shared_dir to a mount that all hosts have, or use env or tcp",
        )
    return found


def what_makes_usable(shared: SharedDir, user: User) -> str:
    """What to do so that this user can use this shared directory."""
    if shared.exists and not shared.permission:
        return f"findmnt -T {shared.path} on HOSTS shows its mount: make it writable"
    if not shared.permission:
        return "mount it: ddp-play provision -i INVENTORY --limit HOSTS --tags nfs_client mounts nfs_client_mounts"
    if user.uid == 0 and shared.fstype.startswith("nfs"):
        return "an NFS server with root_squash maps root to nobody: run as the directory's owner, without become (-b)"
    return f"let {user.name} (uid {user.uid}) create files in {shared.path}"


def _warnings(context: RankContext) -> tuple[str, ...]:
    job, hosts = context.job, context.hosts
    found = [*unused_limits(job), *image_differences(job, hosts)]
    if job.restarts and not context.shared_dirs:
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
