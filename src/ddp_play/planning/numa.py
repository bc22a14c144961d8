"""NUMA binding of ranks: CPUs and memory of the node, or of the socket, that the GPU of a rank is on. Pure.

The modes `node` and `socket` mean what they mean for torchrun's --numa-binding (torch/numa/binding.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, UsageError

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts, NumaNode
    from ddp_play.planning.job import Job

VISIBLE = "CUDA_VISIBLE_DEVICES"
HINT = "set ddp_job_numa to auto or none"


@dataclass(frozen=True, slots=True)
class NumaBinding:
    """What one rank is bound to. CPUs and nodes as the kernel lists them: `0-31,64-95`."""

    node: int  # of its GPU
    cpus: str
    memory_nodes: str  # empty: memory is not bound


def check_numa(job: Job) -> None:
    """UsageError if the job wants its ranks bound, and which GPU a rank has is not known."""
    if job.numa in ("auto", "none"):
        return
    if job.gpus == "none":
        raise UsageError(
            f"ddp_job_numa is {job.numa} and ddp_job_gpus is none: ranks are bound by their GPUs", hint=HINT
        )
    if VISIBLE in job.env:
        raise UsageError(
            f"ddp_job_numa is {job.numa} and ddp_job_env sets {VISIBLE}: any GPU may be a rank's", hint=HINT
        )


def numa_mode(job: Job, host: HostFacts, num_ranks: int) -> str:
    """`node`, `socket` or `none` for the ranks of a host. HostNotReady if it is requested and not possible."""
    if job.numa == "none":
        return "none"
    problem = _problem(job, host, num_ranks)
    if job.numa == "auto":
        return "none" if problem else _certain_mode(host, num_ranks)
    if problem:
        raise HostNotReady(f"{host.name}: ddp_job_numa is {job.numa}, and {problem}", hint=HINT)
    return job.numa


def _certain_mode(host: HostFacts, num_ranks: int) -> str:
    """`node`, or else `socket`, if it leaves no CPU of the host unused, and the order of GPUs is certain."""
    nodes = {row.node for row in host.numa_nodes}
    equal = len({gpu.model for gpu in host.gpus}) == 1  # CUDA puts faster models first
    if len(nodes) < 2 or not equal or not all(row.whole for row in host.numa_nodes):
        return "none"
    for mode in ("node", "socket"):
        near = [_near(mode, host, _node_of(host, gpu.numa_node)) for gpu in host.gpus[:num_ranks]]
        if {row.node for rows in near for row in rows} == nodes:
            return mode
    return "none"


def _problem(job: Job, host: HostFacts, num_ranks: int) -> str:
    """Why ranks cannot be bound by their GPUs; empty if they can."""
    if job.gpus == "none" or VISIBLE in job.env:
        return "which GPU a rank has is not known"
    if num_ranks > len(host.gpus):
        return f"{num_ranks} rank(s) have {len(host.gpus)} GPU(s)"
    usable = {row.node for row in host.numa_nodes if row.cpus}
    for gpu in host.gpus[:num_ranks]:
        node = _node_of(host, gpu.numa_node)
        if node is None:
            return f"the kernel does not tell the NUMA node of GPU {gpu.index}"
        if node not in usable:
            return f"no CPU of NUMA node {node}, where GPU {gpu.index} is, may be used"
    return ""


def _node_of(host: HostFacts, told: int) -> int | None:
    """Node of a GPU. On a host with one node the kernel often tells none."""
    if told < 0 and len(host.numa_nodes) == 1:
        return host.numa_nodes[0].node
    return told if told >= 0 else None


def numa_bindings(mode: str, host: HostFacts, num_ranks: int, *, memory: bool) -> tuple[NumaBinding, ...]:
    """Binding of each rank of a host, by local rank, which is also the number of its GPU; empty for `none`."""
    gpus = () if mode == "none" else host.gpus[:num_ranks]
    return tuple(_binding(_near(mode, host, _node_of(host, gpu.numa_node)), memory=memory) for gpu in gpus)


def _near(mode: str, host: HostFacts, node: int | None) -> list[NumaNode]:
    """The node of a GPU and, for `socket`, the others of its socket."""
    own = next(row for row in host.numa_nodes if row.node == node)
    others = [row for row in host.numa_nodes if row != own and row.socket == own.socket and row.cpus]
    return [own, *(others if mode == "socket" else ())]


def _binding(near: list[NumaNode], *, memory: bool) -> NumaBinding:
    by_number = sorted(near, key=lambda row: row.node)
    memory_nodes = [str(row.node) for row in by_number if row.memory] if memory else []
    return NumaBinding(near[0].node, ",".join(row.cpus for row in by_number), ",".join(memory_nodes))


def threads_per_rank(bindings: tuple[NumaBinding, ...]) -> int:
    """CPUs for each rank, where the ranks with the same CPUs share them evenly; the smallest share counts."""
    sharers = Counter(binding.cpus for binding in bindings)
    return max(1, min(_num_cpus(cpus) // count for cpus, count in sharers.items()))


def _num_cpus(cpus: str) -> int:
    parts = [part.partition("-") for part in cpus.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)
