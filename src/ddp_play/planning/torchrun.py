"""One torchrun per host instead of one process per rank: its command, and the wrapper around each rank. Pure.

torchrun numbers and starts the ranks. ddp-play still stops the gang, because torchrun does not stop other hosts. The
wrapper writes the output and the exit code of each rank to separate files, so that the verdict does not depend on the
output of torchrun.
"""

from __future__ import annotations

import dataclasses
import math
import posixpath
import re
import shlex
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.guard.protocol import EXITED, LOGS, STARTED, rank_dir_name, rank_log_name
from ddp_play.planning.launch_placeholders import HEAD_PORT, HOST_DIR, RUN_KEY, THIS_ADDRESS, THIS_NODE, rank_of_local
from ddp_play.planning.numa import numa_mode
from ddp_play.planning.rank_environment import EnvVar, rank_dir

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.rank_context import Place, RankContext

# Set by torchrun in every rank; source: torch/distributed/elastic/agent/server/local_elastic_agent.py.
BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
WITH_NUMA_BINDING = (2, 9)  # version of torch
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2"
CONTAINER_LOG_DIR = "/ddp-play/logs"
# The shell handles a trapped signal after the rank has ended; the rank gets it too (same process group).
# The subshell keeps the message of the shell about a killed command ("Terminated") out of the log of the rank.
WRAPPER = """trap : TERM INT HUP QUIT USR1 USR2
n=$(({first} + LOCAL_RANK)); d={rank_dirs}/{rank_dir}
{exports}
echo $$ >"$d/{started}"
(exec "$@" >>{logs}/"{rank_log}" 2>&1 </dev/null)
code=$?
echo $code >"$d/.code" && mv "$d/.code" "$d/{exited}"
exit $code"""


def check_torchrun(job: Job) -> None:
    """UsageError if the command holds placeholders whose values torchrun decides."""
    text = " ".join(job.command)
    used = [name for name in ("rank", "local_rank") if "{" + name + "}" in text]
    if used:
        raise UsageError(
            f"ddp_job_command holds {{{used[0]}}}, and under torchrun all ranks have the same command",
            hint="read RANK and LOCAL_RANK from the environment in the script, or set ddp_job_launcher to ranks",
        )


def worker_env(env: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
    """Environment of a rank, with torchrun as the source of the variables that it sets."""
    return tuple(dataclasses.replace(var, source="torchrun") if var.name in BY_TORCHRUN else var for var in env)


def agent_env(context: RankContext, env: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
    """Environment of torchrun: variables common to the ranks of the host, and its signal handling.

    PET_ variables instead of options: an older torch ignores those that it does not know.
    """
    own = rank_dir(context)
    shared = [var for var in env if var.name not in BY_TORCHRUN and not _inside(var.value, own)]
    source = "plan: torchrun"
    if not context.docker:  # by itself torchrun makes a directory in /tmp of the host and leaves it there
        shared.append(EnvVar("PET_LOG_DIR", f"{HOST_DIR}/torchrun", source))
    shared += [
        EnvVar("PET_SIGNALS_TO_HANDLE", SIGNALS, source),
        EnvVar("PET_SHUTDOWN_TIMEOUT", str(max(1, math.ceil(context.job.grace))), "job: ddp_job_grace"),
    ]
    return tuple(sorted(shared, key=lambda var: var.name))


def numa_option(context: RankContext, host: HostFacts) -> str:
    """Value of --numa-binding on a host, or none. torchrun binds with numactl, and CPUs only.

    `auto` hands it on only if it is certain to work: torchrun ends with an error where it cannot bind.
    """
    job = context.job
    mode = numa_mode(job, host, len(context.ranks[host.name]))
    found = re.match(r"(\d+)\.(\d+)", context.torch)
    known = (int(found[1]), int(found[2])) if found else None
    if job.numa == "auto":
        return mode if known and known >= WITH_NUMA_BINDING and host.numactl and not context.in_image else "none"
    if mode != "none" and known and known < WITH_NUMA_BINDING:
        raise UsageError(
            f"ddp_job_numa is {job.numa}, and torchrun of torch {context.torch} has no --numa-binding",
            hint="use torch 2.9 or newer, set ddp_job_launcher to ranks, or set ddp_job_numa to none",
        )
    if mode != "none" and not context.in_image and not host.numactl:
        raise HostNotReady(
            f"{host.name}: ddp_job_numa is {job.numa}, and torchrun binds with numactl, which is not installed",
            hint="install numactl, set ddp_job_launcher to ranks, or set ddp_job_numa to none",
        )
    return mode


def agent_argv(
    context: RankContext, place: Place, command: tuple[str, ...], env: tuple[EnvVar, ...]
) -> tuple[str, ...]:
    """Command of torchrun on a host; `env` is that of a rank."""
    args = [_python(command), "-m", "torch.distributed.run", "--nnodes", str(len(context.hosts))]
    args += ["--nproc-per-node", str(place.local_world_size), "--max-restarts", "0"]
    address = f"[{context.head_addr}]" if ":" in context.head_addr else context.head_addr
    if (
        context.job.rdzv == "c10d"
    ):  # torchrun does not recognize its own IP address: name the host of the store and the local address
        args += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{address}:{HEAD_PORT}", "--rdzv-id", RUN_KEY]
        args += ["--rdzv-conf", f"is_host={1 if place.node == 0 else 0}"]
        args += ["--local-addr", THIS_ADDRESS]
    else:
        args += ["--rdzv-backend", "static", "--node-rank", THIS_NODE]
        args += ["--master-addr", address, "--master-port", HEAD_PORT]
    if place.numa_mode != "none":
        args += ["--numa-binding", place.numa_mode]
    started = ("sh", "-c", _wrapper(context, env), "rank", *command)
    # torchrun passes arguments through string.Template, which replaces ${local_rank} and turns $$ into $
    return (*args, "--no-python", *(word.replace("$", "$$") for word in started))


def _wrapper(context: RankContext, env: tuple[EnvVar, ...]) -> str:
    own = rank_dir(context)
    exports = [
        f'export {var.name}="$d"{shlex.quote(var.value[len(own) :]) if var.value != own else ""}'
        for var in env
        if _inside(var.value, own)
    ]
    return WRAPPER.format(
        first=rank_of_local(0),
        rank_dirs=_quoted(posixpath.dirname(own)),
        rank_dir=rank_dir_name("$n"),
        rank_log=rank_log_name("$n"),
        started=STARTED,
        exited=EXITED,
        exports="\n".join(exports),
        logs=_quoted(CONTAINER_LOG_DIR if context.docker else f"{HOST_DIR}/{LOGS}"),
    )


def _quoted(path: str) -> str:
    """Path in double quotes: the directory on the host is bound later and may contain blanks."""
    return f'"{path}"'


def _inside(value: str, directory: str) -> bool:
    return value == directory or value.startswith(directory + "/")


def _python(command: tuple[str, ...]) -> str:
    """Interpreter of the command of the job: it has the torch to use."""
    return command[0] if re.fullmatch(r"(.*/)?python[0-9.]*", command[0]) else "python3"
