"""What a guard takes of its host before it says that it is ready: its leases, and the port of the PMI server."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from . import host_drain, leases, pmi_server


class NotFreeError(Exception):
    """Something of it is not free; the text is the reason in the guard's state."""


class Taken(NamedTuple):
    """Held for the life of the process."""

    leases: List[leases.Lease]
    server: Optional[pmi_server.Server]

    def close(self) -> None:
        """Give it back."""
        for lease in self.leases:
            lease.close()
        if self.server is not None:
            self.server.close()


def take(spec: Dict[str, Any], run_key: str) -> Taken:
    """Take everything that the host spec names. Raises NotFreeError, and then nothing is held.

    The controller looks at the slots when it hears of a refusal; it must not find those of this guard.
    """
    held: List[leases.Lease] = []
    try:
        for name in spec.get("leases", []):
            held.append(_take_port(name))
        held += take_slots(spec)
        server = _start_server(spec, run_key)
    except BaseException:
        Taken(held, None).close()
        raise
    for lease in held:
        lease.answer()
    return Taken(held, server)


def _take_port(name: str) -> leases.Lease:
    lease = leases.hold(name)
    if lease is not None and leases.takes_effect(name):
        return lease
    why = leases.lost(name, lease)
    if lease is not None:
        lease.close()
    raise NotFreeError("lease taken: " + why)


def _start_server(spec: Dict[str, Any], run_key: str) -> Optional[pmi_server.Server]:
    try:
        return pmi_server.for_ranks(spec.get("pmi"), run_key)
    except OSError as error:
        raise NotFreeError("port taken: %s" % error) from error


def take_slots(spec: Dict[str, Any]) -> List[leases.Lease]:
    """Lease the slots of the ranks. Raises NotFreeError if this run may not have them now."""
    if host_drain.problem_for(spec):  # whoever drains the host made its mark first, and looks for guards now
        raise NotFreeError(leases.SLOTS_TAKEN)
    wanted = spec.get("slots") or {"need": 0, "names": []}
    held = leases.hold_slots(wanted["names"], wanted["need"], leases.slot_scope())
    if len(held) < wanted["need"]:
        raise NotFreeError(leases.SLOTS_TAKEN)
    return held
