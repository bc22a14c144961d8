"""torch.distributed over MPI on torch builds without it: a process group over mpi4py, registered as `mpi4py`.

This file imports nothing of the trainer: copy it beside a script, and write

    import mpi_backend
    dist.init_process_group(mpi_backend.NAME, **mpi_backend.world())

It needs numpy, mpi4py and an MPI library (`pip install mpi4py mpich`). It does what torch's own ProcessGroupMPI does
(MIN, MAX, SUM and PRODUCT on integers, float32 and float64) and reduce_scatter besides. Calls block; one that takes
longer than the group's timeout raises, because MPI itself never gives up.
"""

import atexit

import torch.distributed as dist

from .joining import create_group, world
from .library import NAME, finalize_mpi

__all__ = ["NAME", "world"]

if NAME != "mpi":
    dist.Backend.register_backend(NAME, create_group, extended_api=True, devices=["cpu"])
    atexit.register(finalize_mpi)
