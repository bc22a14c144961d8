"""Lines of an exported script with which pyxis makes the container of a node's ranks. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ddp_play.guard.protocol import NVIDIA
from ddp_play.planning.pyxis_step import image_options, job_mounts, mount_rows

if TYPE_CHECKING:
    from ddp_play.planning.job import Job

# Variables of the script that an image, or a hook of enroot, must not replace.
OWN = (
    *("RUN_ID", "RESULTS", "RANKS_PER_NODE", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("BACKEND", "INIT_METHOD", "PYTHONUNBUFFERED"),
)
HOME = ('export HOME="$RESULTS/home-$RANK"', 'mkdir -p "$HOME"')
# After the step of the ranks, if pyxis has made no container.
NOT_MADE = """\
if [ $code != 0 ] && ! ls "$RESULTS"/rank-*.log > /dev/null 2>&1; then
  echo "no rank started: srun's words above say why there was no container" >&2
  exit 69
fi
"""


def step_options(job: Job) -> str:
    """Options of the step of the ranks, before its command; the script of a node then runs in the container too."""
    if job.chosen_runtime != "pyxis":
        return ""
    rows = mount_rows(job_mounts(job.mounts))
    # else the image's own values would win; enroot reads these as lines
    names = (*OWN, *sorted(name for name, value in job.env.items() if "\n" not in (value or "")))
    words = [
        *map(shlex.quote, image_options(job.image)),
        '--container-mounts="$PWD:$PWD"' + "".join(f",{shlex.quote(row)}" for row in rows),
        f"--container-workdir={shlex.quote(job.workdir)}" if job.workdir else '--container-workdir="$PWD"',
        f"--container-env={','.join(names)}",
    ]
    return "".join(f"\\\n  {word} " for word in words) + "\\\n  "


def home_lines(job: Job) -> tuple[str, ...]:
    """Lines of a rank that make its home: that of its user is not in the container."""
    return () if "HOME" in job.env else HOME


def gpu_lines(job: Job) -> list[str]:
    """Lines that have enroot's NVIDIA hook give a container the node's GPUs, whatever its image says."""
    if job.chosen_runtime != "pyxis" or job.gpus != "auto":
        return []
    values = " ".join(f"{name}={value}" for name, value in NVIDIA.items())
    return [f'if [ -n "${{SLURM_GPUS_ON_NODE:-}}" ]; then export {values}; fi']
