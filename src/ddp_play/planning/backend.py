"""Choice of the torch.distributed backend, by the rule of thumb of the torch documentation."""

from __future__ import annotations

from dataclasses import dataclass

from ddp_play.errors import UsageError


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend and the rule that chose it."""

    backend: str
    reason: str


def choose_backend(
    requested: str, *, gpus_per_host: dict[str, int], fabric: str, bare_ib: bool = False, has_mpi: bool = False
) -> BackendChoice:
    """`requested` is auto or a backend; `gpus_per_host` counts usable GPUs by host name.

    `bare_ib`: all hosts have InfiniBand, without an address on it (IPoIB) that gloo could use. `has_mpi`: the Python
    of the ranks has MPI on all hosts.

    Source of the rule: the backend table of docs/source/distributed.md of pytorch/pytorch.
    """
    without = sorted(host for host, count in gpus_per_host.items() if count == 0)
    if "nccl" in requested and without:
        raise UsageError(
            f"backend {requested} needs a GPU on every host; none usable on {', '.join(without)}",
            hint="set ddp_job_backend to auto or gloo, or leave those hosts out with --limit",
        )
    if requested != "auto":
        return BackendChoice(requested, "ddp_job_backend")
    network = {"ib": "InfiniBand", "local": "one machine"}.get(fabric, "ethernet")
    if not without and gpus_per_host:
        return BackendChoice("nccl", f"GPU + {network} -> nccl")
    if len(without) < len(gpus_per_host):
        return BackendChoice("gloo", f"not all hosts have GPUs (none on {', '.join(without)}) -> gloo")
    if bare_ib and fabric == "ethernet":
        if has_mpi:
            return BackendChoice("mpi", "CPU + InfiniBand without IPoIB, and MPI is installed -> mpi")
        return BackendChoice(
            "gloo", "CPU + InfiniBand without IPoIB -> gloo over ethernet (mpi can use InfiniBand: ddp_job_backend)"
        )
    return BackendChoice("gloo", f"CPU + {network} -> gloo" + (" over IPoIB" if fabric == "ib" else ""))
