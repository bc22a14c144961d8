"""Collection of logs, results and artifacts after the ranks have ended, then cleanup of the hosts."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import is_full
from ddp_play.bundle.network_traffic import traffic_document
from ddp_play.bundle.paths import read_json, read_rows, write_json
from ddp_play.errors import DdpPlayError, Interrupted
from ddp_play.guard.protocol import MAX_LINKS, MAX_MISSING
from ddp_play.run.collection_progress import CollectionProgress, longest_s
from ddp_play.run.host_spec import run_paths
from ddp_play.run.kept_output import exceeds_limit, incomplete, is_collected, kept_rows, order_to_keep
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.link import SILENCE_S, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.collection_progress import Told
    from ddp_play.run.host_links import Gang
    from ddp_play.run.kept_output import Order

DRAIN_S = 3600.0
CLEAN_S = 60.0
# Before each step, and within it where it can be repeated: how long to wait for hosts whose channel broke.
REOPEN_S = 10.0
POLL_S = 0.2


def _reconnect(gang: Gang, links: list[Link]) -> None:
    """Open new channels to those of `links` whose channel broke, and wait until they answer, at most REOPEN_S."""
    gang.pump(0.0)  # channels may have broken while nobody looked
    cut = [link for link in links if not link.lost and not link.connected]
    until = time.monotonic() + REOPEN_S
    while (away := [link for link in cut if not _has_answered(link)]) and time.monotonic() < until:
        gang.reopen()
        gang.pump(POLL_S)
    for link in away:
        if link.channel is not None:
            link.channel.close(f"no answer for {REOPEN_S:.0f} s after its channel broke")


def _has_answered(link: Link) -> bool:
    return link.connected and link.heard >= link.opened_at


def _ask_twice(gang: Gang, kind: str, reply: str, **more: Any) -> dict[str, dict[str, Any]]:
    """The replies of all hosts to a request that may be repeated: those whose channel breaks get it once more."""
    _reconnect(gang, gang.links)
    asked = [link for link in gang.links if not link.lost]
    connected = [link for link in asked if link.connected]
    try:
        return gang.ask(kind, reply, **more)
    except Interrupted:
        raise
    except DdpPlayError:
        cut = [link for link in connected if not link.connected and reply not in link.replies]
        _reconnect(gang, cut)
        with contextlib.suppress(DdpPlayError):  # the first error names these hosts too
            gang.ask(kind, reply, links=cut, **more)
        if any(reply not in link.replies for link in asked):
            raise
        return {link.name: link.replies[reply] for link in asked}


def drain(gang: Gang) -> list[dict[str, Any]]:
    """Read the ranks' logs to the end, before the verdict. Returns rows for the logs that could not be read."""
    asked = [link for link in gang.links if not link.lost]
    try:
        _ask_twice(gang, "drain", "drained", deadline_s=DRAIN_S, silence_s=SILENCE_S)
    except DdpPlayError as error:
        late = [link for link in asked if "drained" not in link.replies]
        rows = [(link.name, link.lost or error.message) for link in late]
        return [{"host": name, "path": "the end of its ranks' logs", "why": why} for name, why in rows]
    return []


def network_counters(gang: Gang, plan: Plan, paths: RunPaths) -> dict[str, Any]:
    """Traffic per interface from the start signal to the end of the logs."""
    answers = {link.name: link.replies.get("drained", {}).get("counters") for link in gang.links}
    after = {name: counters for name, counters in answers.items() if counters}
    return traffic_document(plan, read_json(paths.counters), after)


def collect(
    gang: Gang,
    plan: Plan,
    paths: RunPaths,
    *,
    artifacts: bool = True,
    for_head: dict[str, Any] | None = None,
    told: Told = lambda _num_bytes: None,
) -> list[dict[str, Any]]:
    """Collect results and artifacts. Returns rows for what could not be collected.

    `for_head`: fields of the order with which the first host collects what the head, which is lost, was to collect.
    `told`: as in `CollectionProgress`.
    """
    missing: list[dict[str, Any]] = []
    manifest: list[dict[str, Any]] = []
    asked = [link for link in gang.links if not link.lost]
    order = {"patterns": list(plan.artifacts) if artifacts else [], "max_bytes": plan.artifacts_max_mib << 20}
    orders = {link.name: {**order, **(for_head or {} if link is asked[0] else {})} for link in asked}
    for link in gang.links:
        if link.lost:
            missing.append(
                {"host": link.name, "path": "all files that were not copied during the run", "why": link.lost}
            )
    why = _fetch(gang, asked, orders, longest_s(len(asked), plan.artifacts_max_mib), told)
    for link in asked:
        if "fetched" not in link.replies:
            missing.append({"host": link.name, "path": "results and artifacts", "why": link.lost or why})
        rows, collected = rows_of(link, link.replies.get("fetched", {}))
        of_head = for_head is not None and link is asked[0]  # the shared directory is the head's, which is asked again
        missing += [{**row, "host": plan.head} if of_head and exceeds_limit(row) else row for row in rows]
        manifest += collected
    manifest = [*_earlier_artifacts(paths, manifest), *manifest]
    have = {(row["host"], row["path"]) for row in manifest}
    missing = [row for row in missing if not exceeds_limit(row) or (row["host"], row["path"]) not in have]
    return [*missing, *_write_manifest(paths, manifest)]


def _fetch(gang: Gang, asked: list[Link], orders: dict[str, Order], deadline_s: float, told: Told) -> str:
    """Ask these hosts for their files; why not all have sent them, or empty."""
    _reconnect(gang, gang.links)
    progress, others = CollectionProgress(asked, told), gang.on_pump
    gang.on_pump = partial(_each, (progress, others))
    try:
        gang.ask("fetch", "fetched", deadline_s=deadline_s, silence_s=SILENCE_S, fields=lambda link: orders[link.name])
    except DdpPlayError as error:
        return error.message
    finally:
        gang.on_pump = others
    return ""


def _each(calls: Iterable[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _earlier_artifacts(paths: RunPaths, manifest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of other hosts, and of files that the bundle has from an earlier collection and that are not sent again."""
    hosts, found = {row["host"] for row in manifest}, {(row["host"], row["path"]) for row in manifest}

    def stays(row: dict[str, Any]) -> bool:
        file = paths.artifacts / row["host"] / row["path"]
        return row["host"] not in hosts or ((row["host"], row["path"]) not in found and file.is_file())

    return [row for row in read_rows(paths.artifacts_manifest) if stays(row)]


def _write_manifest(paths: RunPaths, manifest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the list of collected artifacts, if there are any. Returns a row if the disk is full."""
    try:
        if manifest:
            write_json(paths.artifacts_manifest, manifest)
    except OSError as error:
        if not is_full(error):
            raise
        return [{"host": "", "path": paths.artifacts_manifest.name, "why": error.strerror}]
    return []


def rows_of(link: Link, answer: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(files of a host that are missing, artifacts of it that are in the bundle), by its answer and by our limits.

    After the artifacts come symbolic links among them, with what they point to.
    """
    missing = [{"host": link.name, **row} for row in answer.get("missing", [])[: MAX_MISSING + 1]]
    artifacts = [{"host": link.name, **row} for row in answer.get("artifacts", []) if link.files.has(row["path"])]
    links = [{"host": link.name, **row} for row in answer.get("links", [])[:MAX_LINKS]]
    return [*missing, *link.files.missing], [*artifacts, *links]


def clean(
    gang: Gang, plan: Plan, missing: list[dict[str, Any]], journal: Journal, *, restart_follows: bool
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Remove the run's files and containers from the hosts, except files that could not be collected.

    Returns two maps by host: what is left, and the directories that were kept. `restart_follows`: another
    attempt follows, so the directories that all attempts share are kept too. Another host removes them for a lost head.
    """
    hosts = {host.name: host for host in plan.hosts}
    uncollected = shared_with_lost_head(gang, plan)
    reachable = (name for name in (plan.head, *hosts) if not gang.link(name).lost)
    remover = "" if restart_follows or uncollected else next(reachable, "")

    def order(link: Link) -> dict[str, Any]:
        paths = run_paths(hosts[link.name], gang.run_key) if link.name == remover else []
        return {**order_to_keep(link, missing), "run_paths": paths, "stay": restart_follows}

    try:
        answers = _ask_twice(gang, "clean", "cleaned", deadline_s=CLEAN_S, fields=order)
    except DdpPlayError as error:
        journal.emit("warning", message=f"cleanup incomplete: {error.message}")
        answers = {link.name: link.replies.get("cleaned", {}) for link in gang.links}
    after, missed = left_files(gang), incomplete(gang.links, missing)
    left = {name: answer["left"] for name, answer in answers.items() if answer.get("left")}
    kept = {
        name: kept_rows(gang.link(name), answer["kept"], after, missed.get(name, 0))
        for name, answer in answers.items()
        if answer.get("kept")
    }
    if not restart_follows:
        left |= {name: [*left.get(name, ()), *rows] for name, rows in kept.items()}
    for link in gang.links:
        if link.lost or "cleaned" not in link.replies:
            why = link.lost or "the host did not confirm the cleanup"
            row = after.uncleaned(why, is_collected=is_collected(link), limit_mib=missed.get(link.name))
            left[link.name] = [row]
    for path in () if restart_follows else uncollected:
        then = after.then(f"when it is back, {after.collects}")
        left[plan.head].append(f"{path}: ranks on {plan.head} may still write there; {then}")
    return left, kept


def shared_with_lost_head(gang: Gang, plan: Plan) -> list[str]:
    """Directories with artifacts that a lost head shares with the other hosts; its ranks may still write there."""
    if not (plan.source and plan.source_shared and plan.artifacts and gang.link(plan.head).lost):
        return []
    return run_paths(next(host for host in plan.hosts if host.name == plan.head), gang.run_key)


def left_files(gang: Gang) -> LeftFiles:
    """What becomes of files that stay on hosts of the gang."""
    return LeftFiles.of(gang.run_id, (link.route for link in gang.links))
