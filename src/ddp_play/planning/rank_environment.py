"""Environment of one rank, each value with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.guard.protocol import ERROR_FILE, METRICS, RESULT, rank_dir_name
from ddp_play.planning import nccl
from ddp_play.planning.launch_placeholders import (
    ATTEMPT,
    HEAD_PORT,
    HOST_DIR,
    MASKED,
    RUN_ID,
    RUN_KEY,
    SECRETS_DIR,
    THIS_LOCAL_RANK,
    THIS_NODE,
    THIS_RANK,
)
from ddp_play.planning.numa import threads_per_rank

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.rank_context import Place, RankContext

CONTAINER_RANK_DIRS = "/ddp-play"  # under torchrun a container has several ranks
CONTAINER_RANK_DIR = f"{CONTAINER_RANK_DIRS}/rank"
CONTAINER_SECRETS = "/run/secrets"


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One variable. `source` says where the value comes from; a `late` value holds placeholders."""

    name: str
    value: str
    source: str
    late: bool = False

    @property
    def is_secret(self) -> bool:
        """Is the value a secret, which only the rank gets?"""
        return self.late and self.value == MASKED


def rank_dir(context: RankContext) -> str:
    """Directory for metrics, result and error of a rank, as the rank sees the path."""
    if not context.docker:
        return f"{HOST_DIR}/{rank_dir_name(THIS_RANK)}"
    return f"{CONTAINER_RANK_DIRS}/{rank_dir_name(THIS_RANK)}" if context.torchrun else CONTAINER_RANK_DIR


def rank_env(context: RankContext, place: Place) -> tuple[EnvVar, ...]:
    """All variables of a rank, sorted by name. `ddp_job_env` overrides the others, and `source` records it."""
    job, own_dir = context.job, rank_dir(context)
    merged = {var.name: var for var in _own_env(context, place, own_dir)}
    for name, value in job.env.items():
        merged[name] = _job_var(name, value, merged.get(name), context.caller.caller_env)
    for name in context.caller.secret_env:
        source = f"job: ddp_job_env, a secret{_replaced(merged.get(name))}"
        merged[name] = EnvVar(name, MASKED, source, late=True)
    return tuple(merged[name] for name in sorted(merged))


def _own_env(context: RankContext, place: Place, own_dir: str) -> list[EnvVar]:
    """Variables that ddp-play sets, before `ddp_job_env` overrides some."""
    found = [
        *_torch_env(context, place),
        EnvVar("PYTHONUNBUFFERED", "1", "default: output is not buffered"),
        EnvVar("PYTHONFAULTHANDLER", "1", "default: a stuck rank can print its stack"),
        EnvVar("DDP_PLAY_RUN_ID", RUN_ID, "launch", late=True),
        EnvVar("DDP_PLAY_ATTEMPT", ATTEMPT, "launch", late=True),
        EnvVar("DDP_PLAY_BACKEND", context.backend, "plan: backend"),
        EnvVar("DDP_PLAY_INIT_METHOD", context.rendezvous.init_url, "plan: init method", late=True),
        EnvVar("DDP_PLAY_METRICS", f"{own_dir}/{METRICS}", "plan: read during the run", late=True),
        EnvVar("DDP_PLAY_RESULT", f"{own_dir}/{RESULT}", "plan: collected at the end", late=True),
        EnvVar("TORCHELASTIC_ERROR_FILE", f"{own_dir}/{ERROR_FILE}", "plan: names the first failure", late=True),
        *_rendezvous_env(context),
        *_fabric_env(context, place.host),
        *_nccl_env(context, own_dir),
        *_cpu_env(context),
        *_host_env(place.host, own_dir, in_image=context.in_image),
        *_wandb_env(context),
    ]
    if context.job.timeout:
        found.append(EnvVar("DDP_PLAY_TIMEOUT", f"{context.job.timeout:g}", "job: ddp_job_timeout, in seconds"))
    secrets_dir = CONTAINER_SECRETS if context.docker else SECRETS_DIR
    found += [
        EnvVar(f"{name}_FILE", f"{secrets_dir}/{name}", "job: secret, as a file in memory", late=True)
        for name in context.caller.secret_names
    ]
    return found


def _torch_env(context: RankContext, place: Place) -> list[EnvVar]:
    """Variables that torch reads (env:// initialization); source: docs/source/distributed.md of pytorch/pytorch."""
    cpus = context.job.cpus
    if place.numa and not cpus:
        threads, whence = threads_per_rank(place.numa), "plan: CPUs of the NUMA binding / the ranks that have them"
    else:
        threads = max(1, int(cpus or place.host.cpus / place.local_world_size))
        whence = "job: ddp_job_cpus" if cpus else "plan: CPUs of the host / its ranks"
    return [
        EnvVar("RANK", THIS_RANK, "plan: rank", late=True),
        EnvVar("LOCAL_RANK", THIS_LOCAL_RANK, "plan: number on its host", late=True),
        EnvVar("WORLD_SIZE", str(context.world_size), "plan: ranks of all hosts"),
        EnvVar("LOCAL_WORLD_SIZE", str(place.local_world_size), "plan: ranks of this host"),
        EnvVar("GROUP_RANK", THIS_NODE, "plan: number of the host", late=True),
        EnvVar("MASTER_ADDR", context.head_addr, "plan: the head's address on the fabric"),
        EnvVar("MASTER_PORT", HEAD_PORT, "launch: port leased on the head", late=True),
        EnvVar("OMP_NUM_THREADS", str(threads), whence),
    ]


def _rendezvous_env(context: RankContext) -> list[EnvVar]:
    """Variables of an explicit store and of MPI, which torch itself does not read."""
    found = []
    if context.rendezvous.store_url:
        source = "plan: URL of the store"
        found.append(EnvVar("DDP_PLAY_STORE", context.rendezvous.store_url, source, late=True))
    if context.backend == "mpi":
        source = "plan: the process manager on the head, MPICH's PMI-1"
        found += [
            EnvVar("PMI_PORT", f"{context.head_addr}:{HEAD_PORT}", source, late=True),
            EnvVar("PMI_ID", THIS_RANK, "plan: rank", late=True),
        ]
    return found


def _fabric_env(context: RankContext, host: HostFacts) -> list[EnvVar]:
    """Interfaces of gloo, TensorPipe, MPI and NCCL. Without them gloo uses the address of the host name."""
    endpoint, fabric = context.endpoint(host), context.fabric.fabric
    source = f"fabric: {fabric}"
    nics = ",".join(endpoint.interfaces or (endpoint.interface,))
    found = [
        EnvVar("GLOO_SOCKET_IFNAME", nics, source),
        EnvVar("TP_SOCKET_IFNAME", endpoint.interface, source),
    ]
    if context.backend == "mpi":  # names of libfabric and UCX for it: MPICH is built on one of them
        ports = [f"{port.device}:{port.port}" for port in host.infiniband_ports] if fabric == "ib" else []
        found += [EnvVar("FI_TCP_IFACE", endpoint.interface, source)]
        found += [EnvVar("UCX_NET_DEVICES", ",".join((*ports, *nics.split(","))), source)]
        if context.docker:  # process_vm_readv from one container into another: "Operation not permitted"
            source = "plan: ranks of one host may not read each other's memory from their containers"
            found += [EnvVar("MPIR_CVAR_CH4_CMA_ENABLE", "0", source), EnvVar("UCX_TLS", "^sm", source)]
    if "nccl" in context.backend:
        found.append(EnvVar("NCCL_SOCKET_IFNAME", f"={nics}", source + ", exact match"))
        family = "AF_INET6" if ":" in endpoint.address else "AF_INET"
        found.append(
            EnvVar("NCCL_SOCKET_FAMILY", family, "fabric: as the address, also where hosts have both families")
        )
        if context.job.fabric == "ib":
            found.append(EnvVar("NCCL_NET", "IB", "job: ddp_job_fabric is ib, so no silent fallback to sockets"))
        if fabric == "ib":
            ports = [f"{port.device}:{port.port}" for port in host.infiniband_ports]
            if ports:
                found.append(EnvVar("NCCL_IB_HCA", "=" + ",".join(ports), "fabric: active InfiniBand ports"))
    return found


def _nccl_env(context: RankContext, own_dir: str) -> list[EnvVar]:
    """Variables to fail fast and to log the transport. A job that sets NCCL_DEBUG keeps its own NCCL log."""
    if "nccl" not in context.backend:
        return []
    rows = nccl.environment(own_dir, context.job.timeout, context.torch)
    if "NCCL_DEBUG" not in context.job.env:
        rows += nccl.notes_environment(own_dir)
    return [EnvVar(name, value, source, late="<" in value) for name, value, source in rows]


def _cpu_env(context: RankContext) -> list[EnvVar]:
    """Accelerate, and Trainer of Transformers, have no process group on CPUs without it: every rank trains alone."""
    if context.job.gpus != "none" and any(host.gpus for host in context.hosts):
        return []
    return [EnvVar("ACCELERATE_USE_CPU", "true", "plan: no GPUs, and Accelerate connects ranks on CPUs only if told")]


def _host_env(host: HostFacts, own_dir: str, *, in_image: bool) -> list[EnvVar]:
    if in_image:
        return [EnvVar("HOME", own_dir, "plan: the rank's user may have no home in the image", late=True)]
    bin_dir = host.rank_python.rpartition("/")[0]
    path = ":".join(dict.fromkeys((bin_dir, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")))
    return [
        EnvVar("HOME", host.user.home, "host: the user's home"),
        EnvVar("USER", host.user.login_name, "host"),
        EnvVar("PATH", path, "plan: ddp_python first"),
    ]


def _wandb_env(context: RankContext) -> list[EnvVar]:
    """Weights & Biases goes on with the same run after a restart: docs.wandb.ai, "Environment variables".

    Each rank has a run of its own, because two processes must not write to one. The id has the run's random token.
    """
    if not context.job.wandb_resume:
        return []
    source = "job: ddp_job_wandb_resume, the same in all attempts"
    return [
        EnvVar("WANDB_RUN_ID", f"{RUN_KEY}-{THIS_RANK}", source, late=True),
        EnvVar("WANDB_RESUME", "allow", "job: ddp_job_wandb_resume"),
        EnvVar("WANDB_RUN_GROUP", RUN_KEY, source, late=True),
    ]


def _replaced(ours: EnvVar | None) -> str:
    return f", instead of {ours.value}" if ours is not None and not ours.late else ""


def _job_var(name: str, value: str | None, ours: EnvVar | None, caller_env: dict[str, str]) -> EnvVar:
    over = _replaced(ours)
    if value is not None:
        return EnvVar(name, value, f"job: ddp_job_env{over}")
    if name not in caller_env:
        raise UsageError(
            f"ddp_job_env has the bare key {name}, and the caller's environment has no {name}",
            hint=f"export {name}=..., or give it a value",
        )
    return EnvVar(name, caller_env[name], f"caller's environment{over}")
