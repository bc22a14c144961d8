"""What a cleanup leaves on a host that answers, because it is not in the bundle, and the rows that name it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import LOGS, rank_dir_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.left_files import LeftFiles
    from ddp_play.run.link import Link

Order = dict[str, Any]  # fields of the order to clean


def is_collected(link: Link) -> bool:
    """Did the host send its logs to their end, and all results and artifacts that it could send?"""
    return {"drained", "fetched"} <= link.replies.keys()


def order_to_keep(link: Link, missing: list[dict[str, Any]]) -> Order:
    """Fields of the order to clean, by the rows about files that could not be collected.

    `keep` names entries of the attempt's directory: all output of the ranks of a host that is not collected; else the
    directories of the files that are missing.
    """
    if not is_collected(link):
        return keep_all(link.ranks)
    paths = [row["path"] for row in missing if row["host"] == link.name]
    dropped = link.files.dropped_entries()
    output = keep_all(link.ranks)["keep"]
    kept = [name for name in output if name in dropped or any(_is_in(name, path, link) for path in paths)]
    return {"keep_src": bool(paths), "keep": kept}


def keep_all(ranks: Iterable[int]) -> Order:
    """Fields of the order to clean a host of which nothing may be collected."""
    return {"keep_src": True, "keep": [LOGS, *(rank_dir_name(rank) for rank in sorted(ranks))]}


def keep_all_of(plan: Plan, hosts: Collection[str]) -> dict[str, Order]:
    """`keep_all` for these hosts of a plan."""
    return {host.name: keep_all(host.ranks) for host in plan.hosts if host.name in hosts}


def _is_in(name: str, path: str, link: Link) -> bool:
    """Is the path that the host named this entry of the attempt's directory, or in it?"""
    return link.place is not None and f"{path}/".startswith(f"{link.place.directory}/{name}/")


def exceeds_limit(row: dict[str, Any]) -> bool:
    """Is this file missing because of ddp_job_artifacts_max_mib? Hosts tell the size of such files only."""
    return "size" in row


def limit_needed(link: Link, missing: list[dict[str, Any]]) -> int:
    """With which ddp_job_artifacts_max_mib the host can send what exceeded it; 0 if nothing did."""
    rows = [row for row in missing if row["host"] == link.name and exceeds_limit(row)]
    if not rows or not is_collected(link):
        return 0
    return math.ceil((link.files.artifact_bytes + sum(int(row["size"] or 0) for row in rows)) / (1 << 20))


def incomplete(links: Iterable[Link], missing: list[dict[str, Any]]) -> dict[str, int]:
    """Hosts that have sent all but files that are `missing`, and still have these -> as of `limit_needed`.

    A host that did not confirm the cleanup still has them.
    """
    named = {row["host"] for row in missing}
    return {
        link.name: limit_needed(link, missing)
        for link in links
        if is_collected(link) and link.name in named and link.replies.get("cleaned", {"kept": True}).get("kept")
    }


def orders_to_keep(links: Iterable[Link], missing: list[dict[str, Any]]) -> dict[str, Order]:
    """Host -> `order_to_keep`, of hosts that have to keep something."""
    orders = {link.name: order_to_keep(link, missing) for link in links}
    return {name: order for name, order in orders.items() if order["keep_src"]}


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
