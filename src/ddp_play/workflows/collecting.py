"""After the end: every byte of the logs, results and artifacts home, then nothing of ours left on the hosts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ddp_play.errors import DdpPlayError
from ddp_play.paths import write_json

if TYPE_CHECKING:
    from ddp_play.gang import Gang
    from ddp_play.journal import Journal
    from ddp_play.paths import RunPaths
    from ddp_play.plan import Plan

COLLECT_S = 3600.0
CLEAN_S = 60.0


def drain(gang: Gang) -> None:
    """Every byte that the ranks wrote is here before the verdict is."""
    with contextlib.suppress(DdpPlayError):
        gang.ask("drain", "drained", deadline_s=COLLECT_S)


def collect(gang: Gang, plan: Plan, paths: RunPaths) -> list[dict[str, Any]]:
    """Results and artifacts come home; what could not be fetched is returned, never silently absent."""
    missing: list[dict[str, Any]] = []
    order = {"patterns": list(plan.artifacts), "max_bytes": plan.artifacts_max_mib * 1024 * 1024}
    manifest = []
    for link in gang.links:
        if link.lost:
            missing.append({"host": link.name, "path": "everything not followed live", "why": link.lost})
    try:
        answers = gang.ask("fetch", "fetched", deadline_s=COLLECT_S, fields=lambda _: order)
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
        write_json(paths.root / "artifacts.json", manifest)
    return missing


def clean(gang: Gang, missing: list[dict[str, Any]], journal: Journal) -> dict[str, list[str]]:
    """Nothing of ours stays on the hosts, except what could not be brought home; returns what is left, by host."""
    kept = {row["host"] for row in missing if row["host"]}
    try:
        answers = gang.ask("clean", "cleaned", deadline_s=CLEAN_S, fields=lambda link: {"keep_src": link.name in kept})
    except DdpPlayError as error:
        journal.emit("warning", message=f"clean-up: {error.message}")
        answers = {link.name: link.replies.get("cleaned", {}) for link in gang.links}
    left = {name: answer["left"] for name, answer in answers.items() if answer.get("left")}
    for link in gang.links:
        if link.lost:
            left[link.name] = [f"unknown: {link.lost}; ddp-play gc -i INVENTORY when it is back"]
    return left
