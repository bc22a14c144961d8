"""Evidence of a hang: state of each rank in /proc, and the stacks that ranks print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import unless_full
from ddp_play.bundle.paths import write_text
from ddp_play.errors import DdpPlayError
from ddp_play.run.stack_dumps import Whereabouts, cut_dump, whereabouts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.run.host_links import Gang

CAPTURE_S = 4.0


def capture(gang: Gang, journal: Journal) -> dict[int, dict[str, Any]]:
    """State of every rank from /proc. The ranks are frozen until the stop signal."""
    journal.emit("evidence", message="all hosts capture what their ranks are doing")
    try:
        answers = gang.ask("capture", "captured", deadline_s=CAPTURE_S)
    except DdpPlayError as error:
        journal.emit("warning", message=f"no evidence from {error.message}")
        answers = {link.name: link.replies.get("captured", {}) for link in gang.links}
    return {int(rank): seen for row in answers.values() for rank, seen in row.get("ranks", {}).items()}


def locate(seen: Mapping[int, dict[str, Any]], tails: Mapping[int, str], paths: RunPaths) -> dict[int, Whereabouts]:
    """Where the ranks of a hung gang were, from their stacks and /proc; the stacks go into the bundle."""
    found = {}
    for rank, row in seen.items():
        dump = cut_dump(tails.get(rank, ""))
        if dump:
            with unless_full():
                write_text(paths.evidence(rank, "stack"), dump)
        found[rank] = whereabouts(dump, row)
    return found
