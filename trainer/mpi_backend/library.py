"""The MPI library of this process: started without finalizing at exit, left in order where that harms nobody."""

import mpi4py
import torch.distributed as dist

# A rank that fails must end at once: MPI_Finalize would wait for the others.
mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402  # reads mpi4py.rc

__all__ = ["MPI", "NAME", "finalize_mpi"]

NAME = "mpi" if dist.is_mpi_available() else "mpi4py"


def finalize_mpi() -> None:
    """In order only after destroy_process_group: then nobody waits for anybody."""
    if not dist.is_initialized() and MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()
