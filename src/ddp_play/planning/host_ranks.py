"""Part of one host in a plan: its ranks with commands, environments and containers, or its torchrun. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.guard.protocol import SHARED_RUNS, SOURCE
from ddp_play.planning.apptainer_exec import exec_words
from ddp_play.planning.launch_placeholders import HEAD_PORT, HOST_DIR, RUN_ID, RUN_KEY, THIS_LOCAL_RANK, THIS_RANK
from ddp_play.planning.numa import numa_bindings, numa_mode
from ddp_play.planning.plan_document import HostPlan, Unit
from ddp_play.planning.progress_path import progress_path
from ddp_play.planning.pyxis_step import step_words
from ddp_play.planning.rank_container import container_name, create_argv
from ddp_play.planning.rank_context import Place, RankContext
from ddp_play.planning.rank_environment import EnvVar, rank_env
from ddp_play.planning.torchrun import agent_argv, agent_env, numa_option, worker_env

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job


def plan_host(context: RankContext, node: int) -> HostPlan:
    """Plan the part of host number `node`."""
    job, host = context.job, context.hosts[node]
    endpoint, place = context.endpoint(host), _place(context, node)
    return HostPlan(
        name=host.name,
        node=node,
        ranks=context.ranks[host.name],
        address=endpoint.address,
        interface=endpoint.interface,
        user=place.user,
        user_name=job.user or host.user.login_name,
        workdir=place.workdir,
        source_dir=place.source_dir,
        gpus=tuple(gpu.index for gpu in host.gpus) if job.gpus == "auto" else (),
        rank_template=_rank_template(context, place),
        agent_template=_agent_template(context, place) if context.torchrun else None,
        shared_dir=place.shared_dir,
        sends_source=bool(job.source) and (not place.shared_dir or node == 0),
        speed_mbps=link.speed_mbps if (link := host.interface_named(endpoint.interface)) else None,
        rdma_ports=tuple(f"{port.device}:{port.port}" for port in host.rdma if port.active),
        slots=context.slots[host.name],
        numa_mode=place.numa_mode,
        numa=place.numa,
        progress=progress_path(context, place),
    )


def _place(context: RankContext, node: int) -> Place:
    """Place of the ranks of a host."""
    job, host = context.job, context.hosts[node]
    num_ranks, shared_dir = len(context.ranks[host.name]), context.shared_dirs.get(host.name, "")
    mode = numa_option(context, host) if context.torchrun else numa_mode(job, host, num_ranks)
    source_dir = f"{shared_dir}/{SHARED_RUNS}/{RUN_KEY}/{SOURCE}" if shared_dir else f"{HOST_DIR}/{SOURCE}"
    return Place(
        host=host,
        node=node,
        local_world_size=num_ranks,
        user=_rank_user(job, host),
        workdir=_workdir(context, host, source_dir),
        numa_mode=mode,
        numa=numa_bindings(mode, host, num_ranks, memory=job.numa != "auto" and not context.torchrun),
        source_dir=source_dir if job.source else "",
        shared_dir=shared_dir,
    )


def _rank_user(job: Job, host: HostFacts) -> tuple[int, int]:
    """uid and gid of the ranks: the user of the connection, or ddp_job_user where we may start processes for others."""
    if not job.user:
        return host.user.login_uid, host.user.login_gid
    uid, gid = (int(part) for part in job.user.split(":"))
    if host.user.uid not in (0, uid):
        raise UsageError(
            f"{host.name}: ddp_job_user is {job.user}, and {host.user.name} may not start ranks for other users",
            hint="use become (-b), connect as that user, or unset ddp_job_user",
        )
    return uid, gid


def _workdir(context: RankContext, host: HostFacts, source_dir: str) -> str:
    if context.job.workdir:
        return context.job.workdir
    if context.job.source:
        return "/workspace" if context.docker else source_dir
    return "/" if context.in_image else host.user.home


def _rank_template(context: RankContext, place: Place) -> Unit:
    argv, env = _command(context, place), rank_env(context, place)
    if context.torchrun:
        return Unit(argv, worker_env(env))
    return _started(context, place, argv, env)


def _agent_template(context: RankContext, place: Place) -> Unit:
    """The torchrun of a host."""
    rank_vars = rank_env(context, place)
    argv, env = agent_argv(context, place, _command(context, place), rank_vars), agent_env(context, rank_vars)
    return _started(context, place, argv, env)


def _started(context: RankContext, place: Place, argv: tuple[str, ...], env: tuple[EnvVar, ...]) -> Unit:
    """What the host starts: the command itself, or a container for it, or the command in an image."""
    if context.pyxis:
        return Unit(argv, env, image_words=step_words(context, place))
    if context.apptainer:
        return Unit(argv, env, image_words=exec_words(context, place, env))
    if not context.docker:
        return Unit(argv, env)
    create = create_argv(context, place, env_names=tuple(var.name for var in env), argv=argv)
    return Unit(argv, env, container_name(context), create)


def _command(context: RankContext, place: Place) -> tuple[str, ...]:
    return fill_placeholders(
        context.job.command,
        {
            "rank": THIS_RANK,
            "local_rank": THIS_LOCAL_RANK,
            "world_size": str(context.world_size),
            "local_world_size": str(place.local_world_size),
            "init_method": context.rendezvous.init_url,
            "backend": context.backend,
            "head_addr": context.head_addr,
            "head_port": HEAD_PORT,
            "run_id": RUN_ID,
            "python": "python" if context.in_image else place.host.rank_python,
        },
    )


def fill_placeholders(command: tuple[str, ...], values: dict[str, str]) -> tuple[str, ...]:
    """Replace placeholders such as `{rank}`. All other braces stay, so that JSON arguments need no quoting."""
    filled = []
    for word in command:
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)  # noqa: PLW2901 - each step replaces one name
        filled.append(word)
    return tuple(filled)
