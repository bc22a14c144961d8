"""Options of `srun` with which pyxis makes the container of a node, and how its ranks get into it. Pure.

One step of the job per node holds the container. Ranks are started by the node's guard, outside, and enter the
container's namespaces as they start: their pids, signals and exit codes are those of any process of the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.errors import UsageError
from ddp_play.guard.protocol import ENROOT_CONFIG, ENTER, INSIDE, NVIDIA, PROXIES
from ddp_play.planning.image_mounts import mounts_of_run
from ddp_play.planning.pyxis_images import for_pyxis, is_imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ddp_play.planning.job import Mount
    from ddp_play.planning.rank_context import Place, RankContext

# Characters that end a field of --container-mounts.
SEPARATORS = (":", ",")
# What enroot needs of a login; with GPUs, what its NVIDIA hook acts on. The guard has the values: a proxy's may hold a
# password.
LOGIN = ("HOME", "LOGNAME", "USER", ENROOT_CONFIG)


def step_words(context: RankContext, place: Place) -> tuple[str, ...]:
    """`srun` and its options for the container of a node."""
    # what is deeper in another mount comes after it
    mounts = [*mounts_of_run(context, place), *job_mounts(context.job.mounts)]
    uses_gpus = bool(place.host.gpus) and context.job.gpus == "auto"
    proxies = PROXIES if is_imported(context.job.image) else ()
    names = (*LOGIN, *proxies, *(NVIDIA if uses_gpus else ()))
    return (
        "srun",
        f"--export={','.join(names)}",
        *image_options(context.job.image),
        f"--container-mounts={','.join(mount_rows(mounts))}",
        f"--container-workdir={place.workdir}",
    )


def image_options(image: str) -> tuple[str, ...]:
    """The options of pyxis that say which image."""
    return (f"--container-image={for_pyxis(image)}", "--no-container-mount-home")


def mount_rows(mounts: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Rows of --container-mounts; each mount is source, target, read-only."""
    return [f"{source}:{target}{':ro' if read_only else ''}" for source, target, read_only in mounts]


def job_mounts(mounts: Iterable[Mount]) -> list[tuple[str, str, bool]]:
    """The mounts that the job names. UsageError for a path that the option of pyxis cannot hold."""
    found = [(mount.source, mount.target, mount.read_only) for mount in mounts]
    for source, target, _ in found:
        for path in (source, target):
            if any(mark in path for mark in SEPARATORS):
                raise UsageError(
                    f"ddp_job_mounts: {path} has a colon or a comma, which end a path in srun's --container-mounts",
                    hint="mount a directory above it, or a link to it",
                )
    return found


def pyxis_spec(
    image_words: Sequence[str], workdir: str, argv: Sequence[str], env: Mapping[str, str], directory: str
) -> dict[str, Any]:
    """What differs in a host's spec for a command that runs in the node's container. `directory`: of the attempt."""
    return {
        "argv": entered(workdir, argv, directory),
        "env": entering_env(env),
        "secret_prefix": INSIDE,
        "workdir": "/",  # of the program that enters the container
        "step_options": list(image_words[1:]),
    }


def entered(workdir: str, argv: Sequence[str], directory: str) -> list[str]:
    """The command inside the container. The guard has made the script, in a directory that may be mounted noexec."""
    return ["/bin/sh", f"{directory}/{ENTER}", workdir, *argv]


def entering_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program that enters the container, for the command to have `env`."""
    return {f"{INSIDE}{name}": value for name, value in env.items()}
