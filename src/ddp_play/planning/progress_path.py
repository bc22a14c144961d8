"""Path on a host of the files that the job names as its progress (`ddp_job_progress`). Pure."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.planning.launch_placeholders import HOST_DIR, RUN_ID

if TYPE_CHECKING:
    from ddp_play.planning.rank_context import Place, RankContext

VARIABLE = "ddp_job_progress"
SHM = "/dev/shm"  # noqa: S108 - of the host, also with pyxis
OF_THE_HOST = ("/tmp", "/var/tmp", SHM)  # noqa: S108 - Apptainer mounts these of the host


def progress_path(context: RankContext, place: Place) -> str:
    """The glob as a path of the host; empty if the job names none. UsageError for files that no attempt keeps."""
    job = context.job
    if not job.progress:
        return ""
    pattern = job.progress.replace("{run_id}", RUN_ID)
    path = posixpath.normpath(posixpath.join(place.workdir, pattern))
    if context.in_image:
        path = _outside(context, place, path)
    if job.restarts and path.startswith(HOST_DIR):
        raise UsageError(
            f"{VARIABLE}: {job.progress} is in the working directory, which is empty at the start of every attempt",
            hint="set ddp_shared_dir, or write checkpoints to a mount (ddp_job_mounts) and name them by absolute path",
        )
    return path


def _outside(context: RankContext, place: Place, path: str) -> str:
    """A path of the container as a path of the host, by the innermost mount that it is in."""
    binds = [(mount.target, mount.source) for mount in context.job.mounts]
    binds += [(place.shared_dir, place.shared_dir)] if place.shared_dir else []
    binds += [(place.workdir, place.source_dir)] if place.source_dir and context.docker else []
    binds += [(path, path) for path in (HOST_DIR, *OF_THE_HOST)] if context.apptainer else []
    binds += [(path, path) for path in (HOST_DIR, SHM)] if context.pyxis else []
    found = [(target.rstrip("/"), source) for target, source in binds if _is_below(path, target.rstrip("/"))]
    if not found:
        raise UsageError(
            f"{VARIABLE}: {path} is inside the image or the container only, and is gone with it",
            hint="name files in a mount of the job (ddp_job_mounts), in the shared directory or in the source",
        )
    target, source = max(found, key=lambda item: len(item[0]))
    return source.rstrip("/") + path[len(target) :]


def _is_below(path: str, target: str) -> bool:
    return path == target or path.startswith(target + "/")
