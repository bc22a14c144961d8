"""NCCL's transport during a run, from its debug output: reported once, with a warning if InfiniBand is unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.planning.nccl import Transport, misses_infiniband, parse_transport
from ddp_play.run.stop_decision import Stop

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.planning.plan_document import Plan

FAILURE_GRACE_S = 2.0
# Ranks connect before they do much else; a log of gigabytes is not searched for it.
NOTES_BYTES = 4 << 20
# A rank writes these notes: how often they are read, and how much of them is a message.
MAX_LOOKS, MAX_WORDS = 500, 1000
CURE = (
    "in the container: libibverbs and its providers, /dev/infiniband; on the host: ibstat, ulimit -l; "
    "NCCL's own words are in nccl/ of the bundle"
)


class TransportWatch:
    """Reads rank 0's notes as they come, and everybody's at the end."""

    def __init__(self, plan: Plan, paths: RunPaths, journal: Journal) -> None:
        self._plan = plan
        self._paths = paths
        self._journal = journal
        self._told = False
        self._num_looks = 0

    def heard(self, rank: int) -> Stop | None:
        """New notes of a rank: say the transport once; a Stop where the fabric must be InfiniBand and is not."""
        if self._told or rank != 0 or self._num_looks == MAX_LOOKS:
            return None
        self._num_looks += 1
        found = parse_transport([self._notes(0)])
        if found is None or not found.complete:
            return None
        self._told = True
        self._journal.emit("transport", words=found.words()[:MAX_WORDS])
        warning = self._warning(found)
        if not warning:
            return None
        self._journal.emit("warning", message=warning)
        return Stop("wrong_fabric", warning, grace_s=FAILURE_GRACE_S) if self._plan.fabric == "ib" else None

    def conclude(self) -> dict[str, Any]:
        """For run.json: what all ranks' notes say together; empty where NCCL was not used or said nothing."""
        if "nccl" not in self._plan.backend:
            return {}
        ranks = [row.rank for host in self._plan.hosts for row in host.ranks]
        found = parse_transport(text for text in map(self._notes, ranks) if text)
        if found is None:
            return {}
        return {**found.to_json(), "words": found.words()[:MAX_WORDS], "warning": self._warning(found)}

    def _warning(self, found: Transport) -> str:
        ports = [port for host in self._plan.hosts for port in host.rdma_ports]
        if not misses_infiniband(found, num_ports=len(ports)):
            return ""
        names = ", ".join(sorted(set(ports))[:4])
        devices = ", ".join(found.devices)[:MAX_WORDS]
        return f"InfiniBand is there ({names}) and NCCL uses TCP sockets ({devices}): {CURE}"

    def _notes(self, rank: int) -> str:
        """NCCL's own file; the rank's log where the job has NCCL_DEBUG its own way."""
        for path in (self._paths.nccl(rank), self._paths.log(rank)):
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as stream:
                    return stream.read(NOTES_BYTES).decode("utf-8", "replace")
        return ""
