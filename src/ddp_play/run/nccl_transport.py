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
# NCCL connects at the start: only the first part of a long log is searched.
NOTES_BYTES = 4 << 20
# A rank writes these notes: how often they are read, and how much of them is a message.
MAX_LOOKS, MAX_WORDS = 500, 1000
REMEDY = (
    "in the container: libibverbs and its providers, /dev/infiniband; on the host: ibstat, ulimit -l; "
    "NCCL's debug output is in nccl/ of the bundle"
)


class TransportWatch:
    """Reads NCCL's debug output of rank 0 as it arrives, and that of all ranks at the end."""

    def __init__(self, plan: Plan, paths: RunPaths, journal: Journal) -> None:
        self._plan = plan
        self._paths = paths
        self._journal = journal
        self._reported = False
        self._num_looks = 0

    def on_notes(self, rank: int) -> Stop | None:
        """Handle new output of a rank: report the transport once. Stop if InfiniBand is required but not used."""
        if self._reported or rank != 0 or self._num_looks == MAX_LOOKS:
            return None
        self._num_looks += 1
        found = parse_transport([self._notes(0)])
        if found is None or not found.complete:
            return None
        self._reported = True
        self._journal.emit("transport", words=found.words()[:MAX_WORDS])
        warning = self._warning(found)
        if not warning:
            return None
        self._journal.emit("warning", message=warning)
        return Stop("wrong_fabric", warning, grace_s=FAILURE_GRACE_S) if self._plan.fabric == "ib" else None

    def conclude(self) -> dict[str, Any]:
        """Field `nccl` of run.json, from the output of all ranks; empty if NCCL was not used or printed nothing."""
        if "nccl" not in self._plan.backend:
            return {}
        ranks = [rank for host in self._plan.hosts for rank in host.ranks]
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
        return f"InfiniBand is available ({names}), but NCCL uses TCP sockets ({devices}): {REMEDY}"

    def _notes(self, rank: int) -> str:
        """NCCL's debug file of a rank, or its log if the job sets NCCL_DEBUG itself."""
        for path in (self._paths.nccl(rank), self._paths.log(rank)):
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as stream:
                    return stream.read(NOTES_BYTES).decode("utf-8", "replace")
        return ""
