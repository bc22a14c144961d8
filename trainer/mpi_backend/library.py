"""Start and end of the MPI library in this process."""

import mpi4py
import torch.distributed as dist

# A failed rank must end at once, but MPI_Finalize at exit would wait for the other ranks.
mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402  # the import reads mpi4py.rc and starts MPI

__all__ = ["MPI", "NAME", "finalize_mpi"]

NAME = "mpi" if dist.is_mpi_available() else "mpi4py"


def finalize_mpi() -> None:
    """Call MPI_Finalize if the process group was destroyed; after a failure it would wait for the other ranks."""
    if not dist.is_initialized() and MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()
