"""Words of `apptainer exec` that start a command in an image, as a process of the host, and their environment. Pure.

The image has the paths of the host for the files of the run. Signals, exit codes, memory and network are those of a
process: Apptainer keeps one process above the command, and no namespace but that of mounts.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from ddp_play.planning.apptainer_images import is_pulled
from ddp_play.planning.image_mounts import mounts_of_run
from ddp_play.planning.launch_placeholders import HOST_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.rank_context import Place, RankContext
    from ddp_play.planning.rank_environment import EnvVar

# Where a host pulls the image to: it is gone with the run, and Apptainer's cache keeps what the next pull needs.
PULLED_FILE = f"{HOST_DIR}/image/rank.sif"
# For Apptainer itself, which starts other programs; the command in the image has the image's PATH.
PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Variables of the job that are settings of the program, such as APPTAINER_BIND.
SETTINGS = ("APPTAINER_", "SINGULARITY_")


def exec_words(context: RankContext, place: Place, env: tuple[EnvVar, ...]) -> tuple[str, ...]:
    """All that comes before the command of a rank, or of the torchrun of a host. `env`: of this command."""
    found = place.host.apptainer
    # Values of variables stay exact only with --no-eval: a shell would read them.
    words = [found.program if found else "apptainer", "--quiet", "--nocolor", "exec", "--no-eval"]
    if place.host.gpus and context.job.gpus == "auto":
        words.append("--nv")
    home = next((var for var in env if var.name == "HOME" and not var.is_secret), None)
    words += ["--home", home.value] if home and home.value.startswith(("/", HOST_DIR)) else ["--no-home"]
    for source, target, read_only in _binds(context, place):
        words += ["--mount", mount_word(source, target, read_only=read_only)]
    words += ["--pwd", place.workdir, PULLED_FILE if is_pulled(context.job.image) else context.job.image]
    return tuple(words)


def _binds(context: RankContext, place: Place) -> list[tuple[str, str, bool]]:
    """(source, target, read-only): what is deeper in another bind comes after it."""
    of_job = ((mount.source, mount.target, mount.read_only) for mount in context.job.mounts)
    return [*mounts_of_run(context, place), *of_job]


def mount_word(source: str, target: str, *, read_only: bool) -> str:
    """A value of --mount, a row of CSV: paths may have colons, and quotes are doubled."""
    fields = ["type=bind", f"source={source}", f"destination={target}", *(["ro"] if read_only else [])]
    return ",".join('"' + field.replace('"', '""') + '"' if '"' in field else field for field in fields)


def launch_env(program: str, env: Mapping[str, str], own_dir: str) -> dict[str, str]:
    """The environment of the program, for the command in the image to have `env`; HOME is a word (`exec_words`).

    `own_dir`: of the run, for what the program would leave in the user's home and, without FUSE, in /tmp.
    """
    prefix, settings = env_prefix(program), env_prefix(program).removesuffix("ENV_")
    inside = {name: value for name, value in env.items() if name != "HOME"}
    return {
        "PATH": f"{posixpath.dirname(program)}:{PROGRAM_PATH}",
        f"{settings}_CONFIGDIR": own_dir,
        f"{settings}_TMPDIR": own_dir,
        **{name if name.startswith(SETTINGS) else prefix + name: value for name, value in inside.items()},
    }


def env_prefix(program: str) -> str:
    """What makes a variable of the program one of the command; it wins over one that the image sets."""
    return "SINGULARITYENV_" if program.endswith("singularity") else "APPTAINERENV_"


def apptainer_spec(image_words: tuple[str, ...], env: Mapping[str, str], own_dir: str) -> dict[str, Any]:
    """What differs in a host's spec for a command that Apptainer starts. `env`: of the command; without secrets."""
    if not image_words:
        return {}
    program = image_words[0]
    return {
        "env": launch_env(program, env, own_dir),
        "secret_prefix": env_prefix(program),
        "workdir": "/",  # of Apptainer; --pwd is that of the command
        "num_image_words": len(image_words),
    }
