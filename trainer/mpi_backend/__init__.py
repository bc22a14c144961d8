"""MPI backend for torch builds without MPI: a process group over mpi4py, registered as `mpi4py`.

This package imports nothing of the trainer. To use it in another program, copy the directory next to the script:

    import mpi_backend
    dist.init_process_group(mpi_backend.NAME, **mpi_backend.world())

It needs numpy, mpi4py and an MPI library (`pip install mpi4py mpich`). It has the collectives of torch's own
ProcessGroupMPI (reductions MIN, MAX, SUM and PRODUCT on integers, float32 and float64) and also reduce_scatter.
Collectives block. A call that takes longer than the group's timeout raises RuntimeError; MPI itself has no timeout.
"""

import atexit

import torch.distributed as dist

from .joining import create_group, world
from .library import NAME, finalize_mpi

__all__ = ["NAME", "world"]

if NAME != "mpi":
    dist.Backend.register_backend(NAME, create_group, extended_api=True, devices=["cpu"])
    atexit.register(finalize_mpi)
