"""What a cleanup leaves on a host that answers, because it is not in the bundle, and the rows that name it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import LOGS, MORE_MISSING, OVER_LIMIT, rank_dir_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddp_play.run.left_files import LeftFiles
    from ddp_play.run.link import Link


def is_collected(link: Link) -> bool:
    """Did the host send its logs to their end, and all results and artifacts that it could send?"""
    return {"drained", "fetched"} <= link.replies.keys()


def order_to_keep(link: Link, missing: list[dict[str, Any]]) -> dict[str, Any]:
    """Fields of the order to clean, by the rows about files that could not be collected.

    `keep` names entries of the attempt's directory: all output of the ranks of a host that is not collected; else the
    directories of the files that are missing.
    """
    paths = [row["path"] for row in missing if row["host"] == link.name]
    output = [LOGS, *(rank_dir_name(rank) for rank in sorted(link.ranks))]
    if is_collected(link):
        dropped = link.files.dropped_entries()
        output = [name for name in output if name in dropped or any(_is_in(name, path, link) for path in paths)]
    return {"keep_src": bool(paths) or not is_collected(link), "keep": output}


def _is_in(name: str, path: str, link: Link) -> bool:
    """Is the path that the host named this entry of the attempt's directory, or in it?"""
    return link.place is not None and f"{path}/".startswith(f"{link.place.directory}/{name}/")


def limit_needed(link: Link, missing: list[dict[str, Any]]) -> int:
    """With which ddp_job_artifacts_max_mib the host can send all that it has kept; 0 if the limit is not the reason."""
    rows = [row for row in missing if row["host"] == link.name]
    if not (rows and is_collected(link)) or any(not row["why"].startswith((OVER_LIMIT, MORE_MISSING)) for row in rows):
        return 0
    return math.ceil((link.files.artifact_bytes + sum(int(row.get("size") or 0) for row in rows)) / (1 << 20))


def incomplete(links: Iterable[Link], missing: list[dict[str, Any]]) -> dict[str, int]:
    """Hosts that kept files, and have sent all but those that are `missing` -> as of `limit_needed`."""
    return {link.name: limit_needed(link, missing) for link in links if is_collected(link)}


def kept_rows(link: Link, kept: list[str], after: LeftFiles, limit_mib: int = 0) -> list[str]:
    """Rows about directories that the host has kept; the attempt's directory is one if it is not collected.

    `limit_mib`: as of `limit_needed`.
    """
    if is_collected(link) or link.place is None:
        return [after.kept(path, limit_mib) for path in kept]
    others = [path for path in kept if not _is_own(path, link)]
    return [*own_rows(link, kept, after), *map(after.uncollected, others)]


def own_rows(link: Link, kept: list[str], after: LeftFiles) -> list[str]:
    """The row about the directory of an attempt that is not collected, if the host has kept any of it."""
    if link.place is None or not any(_is_own(path, link) for path in kept):
        return []
    return [after.uncollected(link.place.directory)]


def _is_own(path: str, link: Link) -> bool:
    return link.place is not None and path.startswith(f"{link.place.directory}/")
