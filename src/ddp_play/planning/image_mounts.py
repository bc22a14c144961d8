"""Files that ranks in an image of Apptainer or pyxis find at the paths of their host. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.planning.launch_placeholders import HOST_DIR, SECRETS_DIR

if TYPE_CHECKING:
    from ddp_play.planning.rank_context import Place, RankContext

NCCL_CONF = "/etc/nccl.conf"


def mounts_of_run(context: RankContext, place: Place) -> list[tuple[str, str, bool]]:
    """(source, target, read-only) of the run's own files; the mounts that the job names come after them."""
    rows = [(HOST_DIR, False)]
    if place.shared_dir:
        rows.append((place.shared_dir, False))
    if context.caller.secret_names:
        rows.append((SECRETS_DIR, True))
    if place.host.nccl_conf:
        rows.append((NCCL_CONF, True))
    return [(path, path, read_only) for path, read_only in rows]
