"""Wait for slots: a ticket in the queue of each host, until all hosts answer that it is this run's turn.

Each host decides for itself (`guard/slot_order.py`). A run has the same time everywhere, so the order of two runs is
the same on all their hosts, and they never wait for each other: docs/decisions/0007-waiting-by-ticket.md.
"""

from __future__ import annotations

import dataclasses
import socket
import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.controller_user import user_name
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.summary import duration
from ddp_play.errors import Interrupted, SlotsTaken
from ddp_play.planning.refused_hosts import Refused, refuse_all
from ddp_play.run.host_spec import slots_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.writer import Bundle
    from ddp_play.run.attempt_assignment import Assignment, Waiting
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.stop_requests import StopRequests

# Pause between two queries of the hosts, and the time in which they answer one.
POLL_S, ANSWER_S = 1.0, 5.0
TICK_S = 0.1
# After a try in which another run was faster: both are back in the queue by then.
SETTLE_S = 2.0
# A run that waits loses nothing, so it waits longer for a host than a run with ranks does: also while the host is
# rebooted, which `host_reboot_timeout_s` allows 20 minutes for.
UNREACHABLE_S = 1800.0
RUNS_NAMED = 3
MAX_AHEAD = 200  # runs per host, whatever it sends


class SlotQueue:
    """The queues of all hosts of one attempt, as the waiting run uses them."""

    def __init__(
        self, assignment: Assignment, gang: Gang, bundle: Bundle, journal: Journal, stop_requests: StopRequests
    ) -> None:
        self.gang = gang
        self.bundle = bundle
        self.journal = journal
        self.stop_requests = stop_requests
        self._slots = {host.name: slots_of(host) for host in assignment.plan.hosts}
        self._not_before = 0.0
        self._told: Any = None

    def join(self, waiting: Waiting) -> Waiting:
        """Determine the run's place: the latest of the hosts' clocks, unless it has a place from an earlier try."""
        if waiting.since is not None:
            self._not_before = time.monotonic() + SETTLE_S
            return waiting
        answers = self.gang.ask("queue", "queued", deadline_s=30, fields=lambda _: {"time": None})
        return dataclasses.replace(waiting, since=max(float(row.get("clock") or 0) for row in answers.values()))

    def wait(self, waiting: Waiting) -> bool:
        """Return when it is this run's turn on all hosts; False if that was at once. SlotsTaken after `until`."""
        try:
            self._wait(waiting)
        finally:
            if self._told is not None:
                self.bundle.update_run(status=str(RunStatus.PREPARING), queue=None)
        return self._told is not None

    def _wait(self, waiting: Waiting) -> None:
        while True:
            answers = self._query(waiting)
            complete = len(answers) == len(self.gang.links)
            if complete and all(row["ready"] for row in answers.values()) and time.monotonic() >= self._not_before:
                return
            if complete:
                self._report(answers)
            if time.monotonic() >= waiting.until:
                raise self._timed_out(answers)
            self._pause(POLL_S)

    # -- asking --------------------------------------------------------------------------------------
    def _query(self, waiting: Waiting) -> dict[str, dict[str, Any]]:
        """Answers of the hosts, by name, without those that are unreachable now."""
        origin = {"owner": user_name(), "controller": socket.gethostname()}
        for link in self.gang.links:
            link.replies.pop("queued", None)
            link.refused = None
            self.gang.tell(
                "queue", links=[link], time=waiting.since, host=link.name, **self._slots[link.name], **origin
            )
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until and any("queued" not in link.replies for link in self.gang.links):
            self._turn()
        return {link.name: link.replies["queued"] for link in self.gang.links if "queued" in link.replies}

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._turn()

    def _turn(self) -> None:
        """Keep the channels open for a moment. Raises Interrupted on a stop request, HostNotReady for a lost host."""
        if self.stop_requests.stop() is not None:
            raise Interrupted("the run was stopped while it waited for slots")
        self.gang.keep_alive()
        self.gang.pump(TICK_S)
        refuse_all(filter(None, map(_gone, self.gang.links)))

    # -- telling -------------------------------------------------------------------------------------
    def _report(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Write position and reason to run.json and, if they have changed, to the journal."""
        ahead, reason = runs_ahead(answers), reason_to_wait(answers)
        if self._told == (told := (reason, [row["token"] for row in ahead])):
            return
        self._told = told
        queue = {"position": len(ahead) + 1, "ahead": [_public(row) for row in ahead]}
        self.journal.emit("waiting", reason=f"{reason}; {position_text(ahead)}", **queue)
        self.bundle.update_run(status=str(RunStatus.WAITING), queue=queue)

    def _timed_out(self, answers: Mapping[str, Mapping[str, Any]]) -> SlotsTaken:
        silent = [f"{link.name}: no answer" for link in self.gang.links if link.name not in answers]
        rows = [*filter(None, [reason_to_wait(answers)]), *silent]
        return SlotsTaken(
            "\n".join(
                [*rows, f"the run has waited as long as --wait-at-most allows; {position_text(runs_ahead(answers))}"]
            ),
            hint="ddp-play ps -i INVENTORY lists who runs there",
            hosts=tuple(name for name, row in answers.items() if not row["ready"]),
        )


def _gone(link: Link) -> Refused | None:
    """Why a run cannot wait for this host any longer; None if it can."""
    if link.refused is not None:
        return Refused(link.name, str(link.refused["message"]), str(link.refused.get("hint") or ""))
    silent_s = link.silent_s()
    if silent_s <= UNREACHABLE_S:
        return None
    return Refused(link.name, f"no answer for {duration(silent_s)} while the run waited for slots")


def runs_ahead(answers: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The runs ahead on any host, oldest first, with the hosts where they are."""
    found: dict[str, dict[str, Any]] = {}
    for host, answer in answers.items():
        for row in (answer.get("ahead") or ())[:MAX_AHEAD]:
            found.setdefault(row["token"], {**row, "hosts": []})["hosts"].append(host)
    return sorted(found.values(), key=lambda row: (-float(row["waiting_s"]), row["token"]))


def reason_to_wait(answers: Mapping[str, Mapping[str, Any]]) -> str:
    """A line for each host whose slots are not for this run."""
    return "\n".join(f"{host}: {row.get('problem')}" for host, row in answers.items() if not row["ready"])


def position_text(ahead: list[dict[str, Any]]) -> str:
    """`position 2 in the queue, behind run night of kim from login2 (waiting for 3 min 20 s)`."""
    if not ahead:
        return "first in the queue"
    runs = [_run_text(row) for row in ahead[:RUNS_NAMED]]
    more = [f"{len(ahead) - RUNS_NAMED} more"] if len(ahead) > RUNS_NAMED else []
    return f"position {len(ahead) + 1} in the queue, behind {', '.join([*runs, *more])}"


def _run_text(row: Mapping[str, Any]) -> str:
    origin = f" from {row['controller']}" if row.get("controller") else ""
    return f"run {row['run']} of {row.get('owner') or 'unknown'}{origin} (waiting for {duration(row['waiting_s'])})"


def _public(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in ("run", "owner", "controller", "need", "waiting_s", "hosts")}
