"""View of the gang at one moment, and events for changes of rank states."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from ddp_play.run.host_frames import MAX_CHANGES
from ddp_play.run.host_links import SILENT_S
from ddp_play.run.lost_hosts import has_ranks
from ddp_play.run.rank_states import outcomes
from ddp_play.run.stop_decision import GangView
from ddp_play.run.verdict import is_collateral_failure

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.outcome import RankOutcome
    from ddp_play.bundle.writer import Bundle
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang


class Observer:
    """Makes views from the hosts' reports, and writes each new state of a rank to the journal."""

    def __init__(self, plan: Plan, gang: Gang, bundle: Bundle, journal: Journal) -> None:
        self._plan = plan
        self._gang = gang
        self._bundle = bundle
        self._journal = journal
        self._failed_at: float | None = None
        self._looked = time.monotonic()
        self._reported: dict[int, str] = {}
        self._changes: Counter[int] = Counter()
        self._traffic: dict[str, float] = {}
        self._full: set[str] = set()  # hosts that cannot store what their ranks print
        self._disk_changes: Counter[str] = Counter()

    def view(self) -> GangView:
        """The gang at this moment."""
        self._notice_traffic()
        self._excuse_silence()
        if self._bundle.disk_space.full:  # the hosts are paused: their silence says nothing about the ranks
            self._bundle.last_data = time.monotonic()
        self._notice_full_disks()
        ranks = outcomes(self._plan, self._gang, self._bundle)
        failed = [row for row in ranks if row.failed]
        if failed and self._failed_at is None:
            self._failed_at = time.monotonic()
        return GangView(
            ranks=ranks,
            silent_s={link.name: link.silent_s() for link in self._gang.links},
            failed_for_s=time.monotonic() - self._failed_at if self._failed_at is not None else 0.0,
            only_collateral=bool(failed) and all(self._is_collateral(row) for row in failed),
            idle_s=time.monotonic() - self._bundle.last_data,
            any_output=self._bundle.any_output,
            guard_ends={
                link.name: link.state.get("reason", "")
                for link in self._gang.links
                if link.state.get("phase") in ("stopping", "ended") and link.state.get("reason")
            },
        )

    def _excuse_silence(self) -> None:
        """Stop the clock of the idle timeout while a host with running ranks cannot be heard.

        What its ranks print meanwhile comes later, and peers wait for them. A host that stays away is lost after
        ddp_job_host_timeout.
        """
        now, before = time.monotonic(), self._looked
        self._looked = now
        if any(link.silent_s() > SILENT_S or not link.connected for link in self._gang.links if has_ranks(link)):
            self._bundle.last_data = min(now, self._bundle.last_data + now - before)

    def report(self, view: GangView) -> None:
        """Write an event for each rank whose state has changed."""
        for row in view.ranks:
            if self._reported.get(row.rank) != row.state and self._changes[row.rank] < MAX_CHANGES:
                self._changes[row.rank] += 1
                self._reported[row.rank] = row.state
                how = row.words() if row.state in ("exited", "lost") else ""
                self._journal.emit(
                    "rank", rank=row.rank, host=row.host, state=row.state, ok=row.ok, stopped=row.stopped, how=how
                )

    def _notice_traffic(self) -> None:
        """Traffic between ranks counts as progress, like output and metrics."""
        for link in self._gang.links:
            moved = float(link.state.get("traffic_at") or 0.0)
            if moved != self._traffic.get(link.name, 0.0):
                self._traffic[link.name] = moved  # also an earlier time: the host's clock may have been set back
                self._bundle.last_data = time.monotonic()

    def _notice_full_disks(self) -> None:
        """Warn once per host whose disk takes no more data, and report when it does again."""
        for link in self._gang.links:
            problem = str(link.state.get("disk_problem") or "")
            if bool(problem) == (link.name in self._full) or self._disk_changes[link.name] >= MAX_CHANGES:
                continue
            self._disk_changes[link.name] += 1
            self._full ^= {link.name}
            message = f"{link.name}: the logs of its ranks can be written again"
            if problem:
                message = (
                    f"{link.name}: the logs of its ranks cannot be written ({problem}). Their output is lost until "
                    f"there is space again (df -h on {link.name}); ranks that do not handle a failed write end"
                )
            self._journal.emit("warning", message=message)

    def _is_collateral(self, row: RankOutcome) -> bool:
        return is_collateral_failure(row, {row.rank: self._bundle.tail(row.rank)})
