"""Table of the collective test cases, each with its support in torch's documentation."""

from collections.abc import Callable
from dataclasses import dataclass

from trainer import collective_calls as calls


@dataclass(frozen=True)
class Case:
    """One test case; `function` raises WrongValueError, or the error of the backend."""

    name: str
    function: Callable[[calls.CaseContext], None]
    documented_as: str  # its row in the table of backends in torch's documentation
    least_ranks: int = 1
    only: str = ""  # the only backend that has it; empty: all may have it


CASES = (
    Case("send/recv", calls.send_recv, "send/recv", least_ranks=2),
    Case("isend/irecv", calls.isend_irecv, "send/recv", least_ranks=2),
    Case("recv from any", calls.recv_any, "send/recv", least_ranks=2),
    Case("batch_isend_irecv", calls.batch_isend_irecv, "send/recv", least_ranks=2),
    Case("broadcast", calls.broadcast, "broadcast"),
    Case("all_reduce", calls.all_reduce, "all_reduce"),
    Case("all_reduce max", calls.all_reduce_max, "all_reduce"),
    Case("all_reduce avg", calls.all_reduce_avg, "all_reduce"),
    Case("all_reduce bf16", calls.all_reduce_bf16, "all_reduce"),
    Case("all_reduce_coalesced", calls.all_reduce_coalesced, "all_reduce"),
    Case("reduce", calls.reduce, "reduce"),
    Case("all_gather", calls.all_gather, "all_gather"),
    Case("all_gather_single", calls.all_gather_single, "all_gather"),
    Case("all_gather_coalesced", calls.all_gather_coalesced, "all_gather"),
    Case("gather", calls.gather, "gather"),
    Case("scatter", calls.scatter, "scatter"),
    Case("reduce_scatter", calls.reduce_scatter, "reduce_scatter"),
    Case("reduce_scatter_single", calls.reduce_scatter_single, "reduce_scatter"),
    Case("all_to_all", calls.all_to_all, "all_to_all"),
    Case("all_to_all_single", calls.all_to_all_single, "all_to_all"),
    Case("all_to_all_single uneven", calls.all_to_all_single_uneven, "all_to_all"),
    Case("barrier", calls.barrier, "barrier"),
    Case("monitored_barrier", calls.monitored_barrier, "barrier", only="gloo"),
    Case("objects", calls.object_collectives, "all_gather"),
)

# Rows that torch's table (documentation of torch.distributed, "Backends") marks as unsupported, by backend and
# device; it marks all others as supported. mpi on a GPU is missing: that depends on the MPI library.
DOCUMENTED_GAPS: dict[tuple[str, str], frozenset[str]] = {
    ("gloo", "cpu"): frozenset(),
    ("gloo", "cuda"): frozenset({"send/recv", "barrier"}),
    ("mpi", "cpu"): frozenset({"reduce_scatter"}),
    ("nccl", "cuda"): frozenset(),
}


def is_documented(backend: str, device: str, row: str) -> bool | None:
    """Whether torch's table marks this row as supported; None if it has no column for the backend and device."""
    gaps = DOCUMENTED_GAPS.get((backend, device))
    return None if gaps is None else row not in gaps
