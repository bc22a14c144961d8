"""Fencing between attempts: no rank of the old one may be alive, or two would write one checkpoint.

A host that answers is cleaned and confirms it. The guard of a host that does not answer ends its ranks when its lease
is over, so we wait for that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, Interrupted
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.host_links import Gang

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.host_links import Link
    from ddp_play.run.stop_requests import Orders

TURN_S = 0.5
# A guard looks at its lease every fifth of a second and kills again every second: this covers a busy host.
FENCE_MARGIN_S = 5.0
Keep = Callable[[str, list[str]], None]  # a host, and why which directories stay there


def dead_after(link: Link, plan: Plan) -> float:
    """When the ranks of a silent host must have ended (monotonic); inf for one that says that some have not.

    A guard counts its lease from a time of its own clock that we had heard of, so that time was before we last heard
    from the host.
    """
    if not link.lost and "cleaned" in link.replies:
        return float("inf")
    return float(link.heard + plan.timeouts["lease"] + plan.timeouts["grace"] + FENCE_MARGIN_S)


def fence(given: Assignment, unfenced: dict[str, float], orders: Orders, journal: Journal, *, keep: Keep) -> set[str]:
    """Wait until every host has cleaned up or its lease is certainly over (`unfenced`: that moment, monotonic).

    Returns the hosts that still have to be cleaned. `keep` is called with a host and the working directories that stay
    there, because nobody has collected them. HostNotReady when of some host we shall never know; Interrupted
    when somebody wants the run to end.
    """
    if not unfenced:
        return set()
    never = sorted(host for host, moment in unfenced.items() if moment == float("inf"))
    if never:
        raise HostNotReady(
            f"{', '.join(never)}: ranks of attempt {given.attempt} may still run there, so no other attempt is started",
            hint="ddp-play gc -i INVENTORY",
            hosts=tuple(never),
        )
    waits_s = max(unfenced.values()) - time.monotonic()
    journal.emit("waiting", for_hosts=sorted(unfenced), at_most_s=round(max(0.0, waits_s), 1))
    coming = _Coming(given, set(unfenced), keep)
    try:
        while not all(host in coming.cleaned or time.monotonic() > moment for host, moment in unfenced.items()):
            coming.turn()
            if orders.stop() is not None:
                raise Interrupted(f"stopped while it waited for {', '.join(sorted(unfenced))}")
    finally:
        coming.close()
    return set(unfenced) - coming.cleaned


def reclaim(given: Assignment, hosts: set[str], *, until: float, keep: Keep) -> set[str]:
    """Clean up an attempt on hosts that may be back; those that confirmed it are returned. `keep`: as for `fence`."""
    coming = _Coming(given, hosts, keep)
    try:
        while time.monotonic() < until and coming.cleaned != hosts:
            coming.turn()
    finally:
        coming.close()
    return coming.cleaned


class _Coming:
    """Hosts that may come back: opened again and again, cleaned when they answer, never sent a heartbeat."""

    def __init__(self, given: Assignment, hosts: set[str], keep: Keep) -> None:
        plan = given.plan
        # where each host has a working directory of its own, its artifacts are nowhere else
        self._keep_src = bool(plan.source and plan.artifacts and not plan.source_shared)
        self._keep = keep
        self.cleaned: set[str] = set()
        self._told: dict[str, int] = {}
        self._gang = Gang(
            links_of(given, hosts),
            run_id=given.paths.run_id,
            token=given.token,
            attempt=given.attempt,
            on_data=lambda _link, _frame: None,
            on_host=lambda _link, _how: None,
            offsets=lambda _host: {"logs": {}, "metrics": {}},
        )

    def turn(self) -> None:
        """Open what is not open, tell who answers to clean up, note who has."""
        self._gang.reopen()
        self._gang.pump(TURN_S)
        for link in self._gang.links:
            if link.place is not None and self._told.get(link.name) != id(link.channel):
                self._told[link.name] = id(link.channel)
                self._gang.tell("clean", links=[link], run_paths=[], keep_src=self._keep_src)
            reply = link.replies.get("cleaned", {"left": True})
            if reply["left"] == [] and link.name not in self.cleaned:
                self.cleaned.add(link.name)
                if reply.get("kept"):
                    rows = [
                        f"{path}: not collected, the host was lost; ddp-play gc removes it" for path in reply["kept"]
                    ]
                    self._keep(link.name, rows)

    def close(self) -> None:
        """End the channels."""
        self._gang.close()
