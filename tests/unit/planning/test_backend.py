"""Backend by hardware: every combination of GPUs, fabric and wish."""

from __future__ import annotations

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.backend import choose_backend

ALL, NONE, MIXED = {"h1": 8, "h2": 8}, {"h1": 0, "h2": 0}, {"h1": 8, "h2": 0}


@pytest.mark.parametrize(
    ("gpus", "fabric", "backend", "reason"),
    [
        (ALL, "ib", "nccl", "GPU + InfiniBand -> nccl"),
        (ALL, "ethernet", "nccl", "GPU + ethernet -> nccl"),
        (ALL, "local", "nccl", "GPU + one machine -> nccl"),
        (NONE, "ib", "gloo", "CPU + InfiniBand -> gloo over IPoIB"),
        (NONE, "ethernet", "gloo", "CPU + ethernet -> gloo"),
        (NONE, "local", "gloo", "CPU + one machine -> gloo"),
        (MIXED, "ib", "gloo", "not all hosts have GPUs (none on h2) -> gloo"),
        (MIXED, "ethernet", "gloo", "not all hosts have GPUs (none on h2) -> gloo"),
    ],
)
def test_auto(gpus: dict[str, int], fabric: str, backend: str, reason: str) -> None:
    choice = choose_backend("auto", gpus_per_host=gpus, fabric=fabric)
    assert (choice.backend, choice.reason) == (backend, reason)


@pytest.mark.parametrize(
    ("gpus", "fabric", "has_mpi", "backend", "reason"),
    [
        (NONE, "ethernet", True, "mpi", "CPU + InfiniBand without IPoIB, and MPI is installed -> mpi"),
        (NONE, "ethernet", False, "gloo", "CPU + InfiniBand without IPoIB -> gloo over ethernet (mpi can use"),
        (NONE, "ib", True, "gloo", "CPU + InfiniBand -> gloo over IPoIB"),
        (NONE, "local", True, "gloo", "CPU + one machine -> gloo"),
        (ALL, "ethernet", True, "nccl", "GPU + ethernet -> nccl"),
        (MIXED, "ethernet", True, "gloo", "not all hosts have GPUs (none on h2) -> gloo"),
    ],
)
def test_auto_with_infiniband_that_has_no_address(
    gpus: dict[str, int], fabric: str, has_mpi: bool, backend: str, reason: str
) -> None:
    choice = choose_backend("auto", gpus_per_host=gpus, fabric=fabric, bare_ib=True, has_mpi=has_mpi)
    assert choice.backend == backend
    assert choice.reason.startswith(reason)
    assert choose_backend("auto", gpus_per_host=gpus, fabric=fabric, has_mpi=has_mpi).backend in ("nccl", "gloo")


@pytest.mark.parametrize("fabric", ["ib", "ethernet", "local"])
@pytest.mark.parametrize(
    ("asked", "gpus"),
    [("gloo", ALL), ("gloo", NONE), ("gloo", MIXED), ("nccl", ALL), ("cpu:gloo,cuda:nccl", ALL), ("mpi", NONE)],
)
def test_what_was_asked_for_stays(asked: str, gpus: dict[str, int], fabric: str) -> None:
    choice = choose_backend(asked, gpus_per_host=gpus, fabric=fabric)
    assert (choice.backend, choice.reason) == (asked, "ddp_job_backend")


@pytest.mark.parametrize("asked", ["nccl", "cpu:gloo,cuda:nccl"])
@pytest.mark.parametrize(("gpus", "named"), [(NONE, "h1, h2"), (MIXED, "h2")])
def test_nccl_needs_gpus_everywhere(asked: str, gpus: dict[str, int], named: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_backend(asked, gpus_per_host=gpus, fabric="ethernet")
    assert caught.value.message == f"backend {asked} needs a GPU on every host; none usable on {named}"
    assert "--limit" in caught.value.hint
