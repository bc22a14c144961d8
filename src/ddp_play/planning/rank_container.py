"""Arguments of `docker create` for a rank container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddp_play.guard.protocol import AGENT_LOG, LOGS, rank_dir_name, rank_log_name
from ddp_play.planning.launch_placeholders import (
    ATTEMPT,
    HOST_DIR,
    OWNER,
    RUN_ID,
    RUN_KEY,
    SECRETS_DIR,
    THIS_CPUS,
    THIS_HOST,
    THIS_MEMORY_NODES,
    THIS_NODE,
    THIS_RANK,
    rank_of_local,
)
from ddp_play.planning.rank_environment import CONTAINER_RANK_DIR, CONTAINER_RANK_DIRS, CONTAINER_SECRETS
from ddp_play.planning.torchrun import CONTAINER_LOG_DIR

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.rank_context import Place, RankContext

LOG_MOUNT = "/ddp-play/log"
# The output of the rank goes to a file of the guard: byte-exact, and complete across a restart of the engine.
# No core files unless the rank raises the limit: they are as large as its memory and would be collected.
REDIRECT = f'ulimit -S -c 0; exec "$@" >>{LOG_MOUNT} 2>&1'
# Secrets enter the environment inside the container: the engine would store them on disk and show them in
# `docker inspect`. The dot preserves trailing newlines, which the shell removes in a command substitution.
EXPORT = (
    'for _name in {names}; do _value=$(cat "{directory}/$_name" && echo .) || exit 126; '
    'export "$_name=${{_value%.}}"; done; unset _name _value; '
)
NOFILE = 1048576


def container_name(context: RankContext) -> str:
    """Container name of a rank, or of the torchrun of a host: unique there, with run and attempt for `docker ps`."""
    return f"ddp-{RUN_KEY}-a{ATTEMPT}-" + (f"n{THIS_NODE}" if context.torchrun else f"r{THIS_RANK}")


def create_argv(
    context: RankContext, place: Place, *, env_names: tuple[str, ...], argv: tuple[str, ...]
) -> tuple[str, ...]:
    """Arguments of `docker` for one rank, or for the torchrun of a host.

    They hold only names of variables; docker reads the values from its own environment.
    """
    job, host = context.job, place.host
    nofile = NOFILE if host.nofile_hard < 0 else min(NOFILE, host.nofile_hard)
    ranks = _ranks(context, place)
    args = ["create", "--name", container_name(context)]
    for key, value in (
        ("run", RUN_ID),
        ("key", RUN_KEY),
        ("attempt", ATTEMPT),
        ("rank", ",".join(ranks)),
        ("host", THIS_HOST),
        ("owner", OWNER),
    ):
        args += ["--label", f"ddp-play.{key}={value}"]
    args += ["--network", "host", "--ipc", "host", "--init", "--log-driver", "local"]
    args += ["--user", f"{place.user[0]}:{place.user[1]}"]
    for group in job.groups:
        args += ["--group-add", group]
    args += ["--ulimit", f"nofile={nofile}:{nofile}"]
    args += _resources(job, num_ranks=len(ranks))
    if place.numa and not context.torchrun:
        args += ["--cpuset-cpus", THIS_CPUS]
        args += ["--cpuset-mems", THIS_MEMORY_NODES] if all(row.memory_nodes for row in place.numa) else []
    args += _devices(job, host, uses_rdma=context.uses_rdma(host))
    args += _mounts(context, place)
    for env_name in env_names:
        if env_name not in context.caller.secret_env:
            args += ["--env", env_name]
    args += ["--workdir", place.workdir, job.image, "sh", "-c", _script(context), "rank", *argv]
    return tuple(args)


def _script(context: RankContext) -> str:
    """Shell script of the container; it ends by replacing itself with the rank (exec)."""
    names = " ".join(context.caller.secret_env)
    return (EXPORT.format(names=names, directory=CONTAINER_SECRETS) if names else "") + REDIRECT


def _ranks(context: RankContext, place: Place) -> list[str]:
    """Placeholders of the ranks in the container."""
    return [rank_of_local(local) for local in range(place.local_world_size)] if context.torchrun else [THIS_RANK]


def _resources(job: Job, *, num_ranks: int) -> list[str]:
    args = []
    if job.cpus:
        args += ["--cpus", f"{job.cpus * num_ranks:g}"]
    if job.memory:
        memory = re.sub(r"\d+", lambda match: str(int(match[0]) * num_ranks), job.memory)
        args += ["--memory", memory, "--memory-swap", memory]
    if job.shm_size:  # with --ipc host the size of the host's /dev/shm applies; an own size needs a private one
        args[:0] = ["--ipc", "private", "--shm-size", job.shm_size]
    return args


def _devices(job: Job, host: HostFacts, *, uses_rdma: bool) -> list[str]:
    args = []
    if host.gpus and job.gpus == "auto":
        args += ["--gpus", "all"]
    if uses_rdma:
        args += ["--device", "/dev/infiniband", "--cap-add", "IPC_LOCK"]
    if uses_rdma or (host.gpus and job.gpus == "auto"):
        args += ["--ulimit", "memlock=-1:-1"]
    return args


def _own_mounts(context: RankContext, place: Place) -> list[tuple[str, str, bool]]:
    if not context.torchrun:
        return [
            (f"{HOST_DIR}/{LOGS}/{rank_log_name(THIS_RANK)}", LOG_MOUNT, False),
            (f"{HOST_DIR}/{rank_dir_name(THIS_RANK)}", CONTAINER_RANK_DIR, False),
        ]
    binds = [(f"{HOST_DIR}/{LOGS}/{AGENT_LOG}", LOG_MOUNT, False)]
    for rank in _ranks(context, place):
        log, own = rank_log_name(rank), rank_dir_name(rank)
        binds.append((f"{HOST_DIR}/{LOGS}/{log}", f"{CONTAINER_LOG_DIR}/{log}", False))
        binds.append((f"{HOST_DIR}/{own}", f"{CONTAINER_RANK_DIRS}/{own}", False))
    return binds


def _mounts(context: RankContext, place: Place) -> list[str]:
    binds = _own_mounts(context, place)
    if place.source_dir:
        binds.append((place.source_dir, place.workdir, False))
    if place.shared_dir:
        binds.append((place.shared_dir, place.shared_dir, False))
    if context.caller.secret_names or context.caller.secret_env:
        binds.append((SECRETS_DIR, CONTAINER_SECRETS, True))
    if place.host.nccl_conf:
        binds.append(("/etc/nccl.conf", "/etc/nccl.conf", True))
    binds += [(mount.source, mount.target, mount.read_only) for mount in context.job.mounts]
    args = []
    for source, target, read_only in binds:
        args += ["--mount", f"type=bind,source={source},target={target}" + (",readonly" if read_only else "")]
    return args
