"""Fencing between attempts: wait until no rank of the ended attempt can be alive.

Otherwise two attempts would write the same checkpoint. A host that answers cleans up and confirms it. On a host that
does not answer, the guard ends the ranks when their lease expires: the controller waits until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ddp_play.errors import HostNotReady, Interrupted
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.collect_and_clean import left_files
from ddp_play.run.host_links import Gang
from ddp_play.run.kept_output import own_rows
from ddp_play.run.left_files import LeftFiles

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.kept_output import Order
    from ddp_play.run.link import Link
    from ddp_play.run.presence import Presence
    from ddp_play.run.stop_requests import StopRequests

POLL_S = 0.5
# A guard checks its lease every 0.2 s and repeats the kill every second; the margin is for a host under load.
FENCE_MARGIN_S = 5.0
OnKept = Callable[[str, list[str]], None]  # (host, rows that name what was kept there and why)


def dead_after(link: Link, plan: Plan) -> float:
    """The monotonic time when all ranks of this host must have ended; inf if the host reports that some may live.

    Files that it could not remove are no ranks.

    A guard counts its lease from a time of its own clock that the controller has sent back to it. The controller had
    received that time from the host, so the lease began before the host's last message.
    """
    if not link.lost and (reply := link.replies.get("cleaned")) is not None:
        return float("inf") if living(reply) else link.heard
    return float(link.heard + plan.timeouts["lease"] + plan.timeouts["grace"] + FENCE_MARGIN_S)


def living(reply: Mapping[str, Any]) -> list[str]:
    """What may go on there, as the answer to `clean` says; a program before this one names all that is left."""
    found: list[str] = reply.get("alive", reply["left"])
    return found


def fence(
    assignment: Assignment,
    unfenced: dict[str, float],
    stop_requests: StopRequests,
    journal: Journal,
    *,
    keeps: Mapping[str, Order],
    on_kept: OnKept,
    presence: Presence,
) -> set[str]:
    """Wait until each host has cleaned up or its lease has expired (`unfenced`: host -> that monotonic time).

    Returns the hosts that still have to be cleaned. `keeps`: host -> fields of the order to clean, of hosts with files
    that are not collected; `on_kept` is called for those that kept some. Keeps the `presence` on the other hosts.
    HostNotReady if a host has no such time (inf), or answers during the wait that it could not end everything;
    Interrupted after a person's stop request.
    """
    if not unfenced:
        return set()
    _refuse_if_ranks_may_run({host: [] for host, moment in unfenced.items() if moment == float("inf")}, assignment)
    waits_s = max(unfenced.values()) - time.monotonic()
    journal.emit("waiting", for_hosts=sorted(unfenced), at_most_s=round(max(0.0, waits_s), 1))
    cleaner = _LostHostsCleaner(assignment, set(unfenced), keeps, on_kept, presence)
    try:
        while not all(host in cleaner.dead or time.monotonic() > moment for host, moment in unfenced.items()):
            cleaner.poll()
            _refuse_if_ranks_may_run(cleaner.alive, assignment)
            order = stop_requests.stop()
            if order is not None and not order.requeue:  # what the engine takes has to be known dead too
                raise Interrupted(f"the run was stopped while it waited for {', '.join(sorted(unfenced))}")
    finally:
        cleaner.close()
    return set(unfenced) - cleaner.cleaned


def _refuse_if_ranks_may_run(alive: dict[str, list[str]], assignment: Assignment) -> None:
    """HostNotReady if there are such hosts. `alive`: host -> what it could not end, as far as it is known."""
    if alive:
        names = tuple(sorted(alive))
        rows = "".join(f"\n{name}: {row}" for name in names for row in alive[name])
        ends = "ddp-play gc -i INVENTORY --run RUN --yes ends them, and removes for good what was not collected"
        over = LeftFiles.of(assignment.paths.run_id, assignment.routes).over
        raise HostNotReady(
            f"{', '.join(names)}: ranks of attempt {assignment.attempt} may still run there, "
            f"so no other attempt is started{rows}",
            hint=f"they end with their allocation: {over}" if over else ends,
            hosts=names,
        )


class _LostHostsCleaner:
    """Cleanup of hosts that may come back: retries their channels and sends no heartbeat, so that leases expire."""

    def __init__(
        self,
        assignment: Assignment,
        hosts: set[str],
        keeps: Mapping[str, Order],
        on_kept: OnKept,
        presence: Presence,
    ) -> None:
        self._keeps = keeps
        self._on_kept = on_kept
        self.dead: set[str] = set()  # hosts that answered and have no rank any more
        self.cleaned: set[str] = set()  # those of them without a file of the attempt
        self.alive: dict[str, list[str]] = {}  # host that answered -> what it could not end
        self._requested: dict[str, int] = {}
        self._gang = Gang(
            links_of(assignment, hosts),
            run_id=assignment.paths.run_id,
            token=assignment.token,
            attempt=assignment.attempt,
        )
        self._gang.on_pump = presence.keep

    def poll(self) -> None:
        """Open missing channels, send `clean` to hosts that answer, record those that have confirmed it."""
        self._gang.reopen()
        self._gang.pump(POLL_S)
        for link in self._gang.links:
            if link.place is not None and self._requested.get(link.name) != id(link.channel):
                self._requested[link.name] = id(link.channel)
                order = self._keeps.get(link.name, {"keep_src": False})
                self._gang.tell("clean", links=[link], run_paths=[], **order)
            if "cleaned" in link.replies and link.name not in self.dead:
                self._take_reply(link, link.replies["cleaned"])

    def _take_reply(self, link: Link, reply: dict[str, Any]) -> None:
        if alive := living(reply):
            self.alive[link.name] = alive
            return
        self.alive.pop(link.name, None)
        self.dead.add(link.name)
        if not reply["left"]:
            self.cleaned.add(link.name)
        if rows := own_rows(link, reply.get("kept") or [], left_files(self._gang)):
            self._on_kept(link.name, rows)

    def close(self) -> None:
        """Close the channels."""
        self._gang.close()
