"""Full disk on the controller: logs are kept on the hosts until there is space; at the end all files stay there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import Outcome, RunStatus, Verdict
from ddp_play.errors import DiskFull
from ddp_play.run.collect_and_clean import left_files

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.writer import Bundle
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.stop_requests import StopRequests

# Time to free space after the ranks have ended.
WAIT_FOR_SPACE_S = 20.0
# Pieces that were under way when the disk became full arrive for so long after the host was asked again.
FOLLOW_AGAIN_S = 2.0


class FullDisk:
    """Pauses the transfer from the hosts while the disk is full, and resumes it when there is space."""

    def __init__(self, gang: Gang, bundle: Bundle, journal: Journal) -> None:
        self._gang = gang
        self._bundle = bundle
        self._journal = journal
        self._followed: dict[str, float] = {}

    def pause(self, error: DiskFull) -> None:
        """Pause the transfer: the hosts keep their logs."""
        self._gang.tell("pause")
        self._journal.emit(
            "warning",
            message=f"{error.message}; the run continues and its hosts keep the logs: free space on this machine",
        )

    def resume_if_space(self) -> bool:
        """True if the disk was full and has space again; then all output that is missing here is requested."""
        if not self._bundle.disk_space.recover():
            return False
        self._journal.emit("warning", message="there is space on the disk again: the transfer of logs continues")
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

    def wait_for_space(self, stop_requests: StopRequests) -> bool:
        """True if the disk was full and space was freed in time; then all missing output was requested."""
        if not self._bundle.disk_space.full:
            return False
        self._journal.emit(
            "warning", message=f"the ranks have ended; waiting {WAIT_FOR_SPACE_S:.0f} s for space on the disk"
        )
        until = time.monotonic() + WAIT_FOR_SPACE_S
        while time.monotonic() < until and stop_requests.stop() is None:
            self._gang.pump(0.5)
            self._gang.keep_alive()
            if self.resume_if_space():
                return True
        return False


def left_on_hosts(outcome: Outcome, paths: RunPaths, gang: Gang) -> Outcome:
    """The outcome of a run whose files stay on these hosts because the controller's disk is full."""
    why, after, names = f"no space left on {paths.root}", left_files(gang), [link.name for link in gang.links]
    again = f"free some space, then: ddp-play attach {paths.run_id}"
    verdict = Verdict(
        DiskFull.kind,
        f"{outcome.verdict.message}, but the disk of the controller is full: the files of the ranks are on their hosts",
        DiskFull.exit_code,
        hint=f"{', '.join(names)}: {after.stay}" if after.over else again,
    )
    missing = tuple({"host": name, "path": "logs, results and artifacts", "why": why} for name in names)
    left = {name: [f"everything of this run: {why}"] for name in names}
    return Outcome(RunStatus.FAILED, verdict, outcome.ranks, missing, left)
