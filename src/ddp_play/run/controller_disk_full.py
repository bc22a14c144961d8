"""Full disk on the controller: logs wait on the hosts, and at the end all files stay there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import Outcome, RunStatus, Verdict
from ddp_play.errors import DiskFull

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.writer import Bundle
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.stop_requests import Orders

# The ranks have ended and the disk is full: how long somebody may take to make room.
ROOM_S = 20.0
# Pieces that were under way when the disk became full arrive for so long after the host was asked again.
FOLLOW_AGAIN_S = 2.0


class FullDisk:
    """Pauses what the hosts send while nothing fits here, and asks for it again when there is room."""

    def __init__(self, gang: Gang, bundle: Bundle, journal: Journal) -> None:
        self._gang = gang
        self._bundle = bundle
        self._journal = journal
        self._followed: dict[str, float] = {}

    def pause(self, error: DiskFull) -> None:
        """Nothing fits any more: the hosts keep their logs for now."""
        self._gang.tell("pause")
        self._journal.emit("warning", message=f"{error.message}; the run goes on, its logs wait on the hosts")

    def resume_when_there_is_room(self) -> bool:
        """Was the disk full, and is there room again? Then everything that is not here is asked for."""
        if not self._bundle.room.is_back():
            return False
        self._journal.emit("warning", message="there is room on the disk again: following on")
        for link in self._gang.links:
            self._followed.pop(link.name, None)
            self.follow_again(link)
        return True

    def follow_again(self, link: Link) -> bool:
        """Request everything that is not here from a host, unless that was requested less than FOLLOW_AGAIN_S ago."""
        now = time.monotonic()
        if now - self._followed.get(link.name, float("-inf")) > FOLLOW_AGAIN_S:
            self._followed[link.name] = now
            self._gang.follow(link)
            return True
        return False

    def wait_for_room(self, orders: Orders) -> bool:
        """Where the disk is full: was there room in time? Then everything is asked for again."""
        if not self._bundle.room.full:
            return False
        self._journal.emit("warning", message=f"the ranks have ended; waiting {ROOM_S:.0f} s for room on the disk")
        until = time.monotonic() + ROOM_S
        while time.monotonic() < until and orders.stop() is None:
            self._gang.pump(0.5)
            self._gang.keep_alive()
            if self.resume_when_there_is_room():
                return True
        return False


def left_on_hosts(outcome: Outcome, paths: RunPaths, names: list[str]) -> Outcome:
    """The outcome of a run whose files are still on these hosts, because there is no room here."""
    why = f"no space left on {paths.root}"
    verdict = Verdict(
        DiskFull.kind,
        f"{outcome.verdict.message}, but the disk of this machine is full: what the ranks left is on their hosts",
        DiskFull.exit_code,
        hint=f"free some space, then: ddp-play attach {paths.run_id}",
    )
    missing = tuple({"host": name, "path": "logs, results and artifacts", "why": why} for name in names)
    left = {name: [f"everything of this run: {why}"] for name in names}
    return Outcome(RunStatus.FAILED, verdict, outcome.ranks, missing, left)
