"""Collection of logs, results and artifacts after the end, then removal of all our files from the hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import is_full
from ddp_play.bundle.network_traffic import measured
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.errors import DdpPlayError
from ddp_play.run.host_spec import run_paths

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang, Link

COLLECT_S = 3600.0
CLEAN_S = 60.0
# Every host answers a heartbeat a second, also between the pieces of a file; for this long none has come.
SILENCE_S = 60.0


def drain(gang: Gang) -> list[dict[str, Any]]:
    """Read the ranks' logs to their ends, before the verdict; what could not be read is returned."""
    try:
        gang.ask("drain", "drained", deadline_s=COLLECT_S, silence_s=SILENCE_S)
    except DdpPlayError as error:
        late = [link for link in gang.links if not link.lost and "drained" not in link.replies]
        return [{"host": link.name, "path": "the end of its ranks' logs", "why": error.message} for link in late]
    return []


def network_counters(gang: Gang, plan: Plan, paths: RunPaths) -> dict[str, Any]:
    """What the networks carried from the start to the drain."""
    answers = {link.name: link.replies.get("drained", {}).get("counters") for link in gang.links}
    after = {name: counters for name, counters in answers.items() if counters}
    return measured(plan, read_json(paths.counters), after)


def collect(gang: Gang, plan: Plan, paths: RunPaths, *, artifacts: bool = True) -> list[dict[str, Any]]:
    """Collect results and artifacts; what could not be fetched is returned."""
    missing: list[dict[str, Any]] = []
    patterns = list(plan.artifacts) if artifacts else []
    order = {"patterns": patterns, "max_bytes": plan.artifacts_max_mib * 1024 * 1024}
    manifest = []
    for link in gang.links:
        if link.lost:
            missing.append({"host": link.name, "path": "everything not followed live", "why": link.lost})
    try:
        answers = gang.ask("fetch", "fetched", deadline_s=COLLECT_S, silence_s=SILENCE_S, fields=lambda _: order)
    except DdpPlayError as error:
        answers = {link.name: link.replies.get("fetched", {}) for link in gang.links}
        missing += [
            {"host": link.name, "path": "results and artifacts", "why": error.message}
            for link in gang.links
            if not link.lost and "fetched" not in link.replies
        ]
    for name, answer in answers.items():
        missing += [{"host": name, **row} for row in answer.get("missing", [])]
        manifest += [{"host": name, **row} for row in answer.get("artifacts", [])]
    if manifest:
        try:
            write_json(paths.root / "artifacts.json", manifest)
        except OSError as error:
            if not is_full(error):
                raise
            missing.append({"host": "", "path": "artifacts.json", "why": error.strerror})
    return missing


def clean(
    gang: Gang, plan: Plan, missing: list[dict[str, Any]], journal: Journal, *, goes_on: bool
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Remove everything of ours from the hosts, except what could not be collected.

    Returns by host what is left, and the working directories that stay for what is in them. `goes_on`: another attempt
    follows, so what the run's attempts share stays too. Where the head is lost, another host removes that, unless the
    head was to collect artifacts from it.
    """
    incomplete = {row["host"] for row in missing if row["host"]}
    here = [plan.head, *(link.name for link in gang.links)]
    hosts = {host.name: host for host in plan.hosts}
    collects = bool(plan.source and plan.source_shared and plan.artifacts)
    uncollected = run_paths(hosts[plan.head], gang.run_key) if collects and gang.link(plan.head).lost else []
    in_charge = "" if goes_on or uncollected else next((name for name in here if not gang.link(name).lost), "")

    def order(link: Link) -> dict[str, Any]:
        paths = run_paths(hosts[link.name], gang.run_key) if link.name == in_charge else []
        return {"keep_src": link.name in incomplete, "run_paths": paths}

    try:
        answers = gang.ask("clean", "cleaned", deadline_s=CLEAN_S, fields=order)
    except DdpPlayError as error:
        journal.emit("warning", message=f"clean-up: {error.message}")
        answers = {link.name: link.replies.get("cleaned", {}) for link in gang.links}
    left = {name: answer["left"] for name, answer in answers.items() if answer.get("left")}
    kept = {
        name: [f"{path}: not all of it was collected; ddp-play gc removes it" for path in answer["kept"]]
        for name, answer in answers.items()
        if answer.get("kept")
    }
    for name, rows in ({} if goes_on else kept).items():
        left[name] = [*left.get(name, ()), *rows]
    for link in gang.links:
        if link.lost or "cleaned" not in link.replies:
            why = link.lost or "it did not say that it cleaned up"
            left[link.name] = [f"unknown: {why}; ddp-play gc -i INVENTORY when it is back"]
    for path in () if goes_on else uncollected:
        left[plan.head].append(f"{path}: not collected, its host was lost; copy what you need from it, then remove it")
    return left, kept
