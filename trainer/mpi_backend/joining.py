"""Arguments of init_process_group under MPI, and creation of the process groups that torch requests."""

import os
import zlib
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but missing in __all__

from .library import MPI, NAME
from .process_group import MpiGroup


def world() -> dict[str, Any]:
    """Arguments of init_process_group: rank and world size of MPI, and a TCPStore whose address MPI broadcasts."""
    if NAME == "mpi":
        return {}
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    address, port = os.environ.get("MASTER_ADDR", MPI.Get_processor_name()), 0
    store = None
    if rank == 0:
        store = TCPStore(address, 0, size, is_master=True, wait_for_workers=False)
        port = store.port
    address, port = comm.bcast((address, port))
    if store is None:
        store = TCPStore(address, port, size, is_master=False)
    return {"store": store, "rank": rank, "world_size": size}


def create_group(options: Any, _backend_options: Any) -> MpiGroup:
    """Create a process group; torch calls it on the members of the group, for the default group and for new_group."""
    ranks = list(options.global_ranks_in_group)
    comm = MPI.COMM_WORLD
    if ranks:
        members = comm.Get_group().Incl(ranks)
        comm = comm.Create_group(members, zlib.crc32(str(options.group_id).encode()) % 32768)
    else:
        comm = comm.Dup()
    return MpiGroup(comm, options.timeout.total_seconds())
