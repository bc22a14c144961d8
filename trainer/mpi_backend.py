"""torch.distributed over MPI on torch builds without it: a process group over mpi4py, registered as `mpi4py`.

This file imports nothing of the trainer: copy it beside a script, and write

    import mpi_backend
    dist.init_process_group(mpi_backend.NAME, **mpi_backend.world())

It needs numpy, mpi4py and an MPI library (`pip install mpi4py mpich`). It does what torch's own ProcessGroupMPI does
(MIN, MAX, SUM and PRODUCT on integers, float32 and float64) and reduce_scatter besides. Calls block; one that takes
longer than the group's timeout raises, because MPI itself never gives up.
"""

import atexit
import os
import time
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import mpi4py
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # not in the stubs
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but missing in __all__

# A rank that fails must end at once: MPI_Finalize would wait for the others.
mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402  # reads mpi4py.rc

NAME = "mpi" if dist.is_mpi_available() else "mpi4py"
DTYPES = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64}
OPERATIONS = (
    (dist.ReduceOp.SUM, MPI.SUM),
    (dist.ReduceOp.MIN, MPI.MIN),
    (dist.ReduceOp.MAX, MPI.MAX),
    (dist.ReduceOp.PRODUCT, MPI.PROD),
)
SPIN_S = 0.0005  # then sleep between looks: ranks may share cores
NAP_S = 0.0002


def world() -> dict[str, Any]:
    """What init_process_group needs besides the name: MPI knows rank and size, and carries the store's address."""
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


class Pending:
    """A message on its way; `wait` ends with it or raises after the timeout."""

    def __init__(self, request: Any, what: str, limit_s: float, receive: tuple[Tensor, Tensor] | None = None) -> None:
        self.request = request
        self.what = what
        self.limit_s = limit_s
        self.receive = receive
        self.source = -1

    def is_completed(self) -> bool:
        status = MPI.Status()
        if self.request is None:
            return True
        if not self.request.Test(status):
            return False
        self.request, self.source = None, status.Get_source()
        if self.receive is not None:
            tensor, buffer = self.receive
            _give_back(tensor, buffer)
        return True

    def wait(self, timeout: timedelta | None = None) -> bool:
        limit_s = timeout.total_seconds() if timeout else self.limit_s
        started = time.monotonic()
        while not self.is_completed():
            waited = time.monotonic() - started
            if waited > limit_s:
                raise RuntimeError(f"Timed out waiting {limit_s * 1000:.0f}ms for {self.what} over MPI")
            if waited > SPIN_S:
                time.sleep(NAP_S)
        return True

    def _source_rank(self) -> int:
        return self.source


class PendingFromAny(Pending):
    """A message from whoever sends first: received once it is there to be matched.

    MPICH posts a receive from any source twice, for neighbours and for the network, and takes one back when the other
    has matched; over three hosts that did not always come to an end.
    """

    def __init__(self, comm: Any, tag: int, limit_s: float, receive: tuple[Tensor, Tensor]) -> None:
        super().__init__(None, "recv", limit_s, receive)
        self.matching: tuple[Any, int] | None = (comm, tag)

    def is_completed(self) -> bool:
        if self.matching is not None:
            comm, tag = self.matching
            message = comm.Improbe(MPI.ANY_SOURCE, tag)
            if message is None:
                return False
            assert self.receive is not None
            self.matching, self.request = None, message.Irecv(_raw(self.receive[1]))
        return super().is_completed()


TorchGroup: Any = dist.ProcessGroup  # its stubs have overloads that no subclass in Python can repeat


class MpiGroup(TorchGroup):  # type: ignore[misc]  # see above
    """A process group whose ranks are those of an MPI communicator; tensors are on the CPU."""

    def __init__(self, comm: Any, limit_s: float) -> None:
        super().__init__(comm.Get_rank(), comm.Get_size())
        self.comm = comm
        self.limit_s = limit_s

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        return NAME

    # -- reductions ----------------------------------------------------------------------------------
    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        for tensor in tensors:
            buffer = _buffer(tensor)
            self._do(self.comm.Iallreduce(MPI.IN_PLACE, _numbers(buffer), _operation(opts)), "all_reduce")
            _give_back(tensor, buffer)
        return _done(tensors)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        buffer, root = _buffer(tensors[0]), opts.rootRank
        mine = MPI.IN_PLACE if self.rank() == root else _numbers(buffer)
        into = _numbers(buffer) if self.rank() == root else None
        self._do(self.comm.Ireduce(mine, into, _operation(opts), root), "reduce")
        _give_back(tensors[0], buffer)
        return _done(tensors)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Any:
        for output, pieces in zip(outputs, inputs, strict=True):
            self._reduce_scatter(output, torch.cat([piece.reshape(-1) for piece in pieces]), opts)
        return _done(outputs)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:  # noqa: A002
        self._reduce_scatter(output, input.contiguous(), opts)
        return _done([output])

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        for output, piece in zip(outputs, inputs, strict=True):
            self._reduce_scatter(output, piece.contiguous(), opts)
        return _done(outputs)

    def _reduce_scatter(self, output: Tensor, flat: Tensor, opts: Any) -> None:
        buffer = _buffer(output)
        call = self.comm.Ireduce_scatter_block(_numbers(flat), _numbers(buffer), _operation(opts))
        self._do(call, "reduce_scatter")
        _give_back(output, buffer)

    # -- copies: of bytes, so that every dtype goes ---------------------------------------------------
    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        buffer = _buffer(tensors[0])
        self._do(self.comm.Ibcast(_raw(buffer), opts.rootRank), "broadcast")
        _give_back(tensors[0], buffer)
        return _done(tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        for rows, tensor in zip(outputs, inputs, strict=True):
            gathered = torch.empty((len(rows), *tensor.shape), dtype=tensor.dtype)
            self._do(self.comm.Iallgather(_raw(_buffer(tensor)), _raw(gathered)), "all_gather")
            for row, piece in zip(rows, gathered, strict=True):
                row.copy_(piece)
        return _done([row for rows in outputs for row in rows])

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        # here the outer list goes over ranks, not over inputs
        return self.allgather([[*rows] for rows in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:  # noqa: A002
        buffer = _buffer(output)
        self._do(self.comm.Iallgather(_raw(_buffer(input)), _raw(buffer)), "all_gather")
        _give_back(output, buffer)
        return _done([output])

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        for output, piece in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, piece, opts)
        return _done(outputs)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        tensor, root = inputs[0], opts.rootRank
        gathered = torch.empty((self.size(), *tensor.shape), dtype=tensor.dtype) if self.rank() == root else None
        into = _raw(gathered) if gathered is not None else None
        self._do(self.comm.Igather(_raw(_buffer(tensor)), into, root), "gather")
        if gathered is not None:
            for row, piece in zip(outputs[0], gathered, strict=True):
                row.copy_(piece)
        return _done([tensor])

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        buffer, root = _buffer(outputs[0]), opts.rootRank
        rows = _raw(torch.stack(inputs[0])) if self.rank() == root else None
        self._do(self.comm.Iscatter(rows, _raw(buffer), root), "scatter")
        _give_back(outputs[0], buffer)
        return _done(outputs)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        sent, received = [item.numel() for item in inputs], [item.numel() for item in outputs]
        flat = torch.empty(sum(received), dtype=outputs[0].dtype)
        self._all_to_all(flat, torch.cat([item.reshape(-1) for item in inputs]), received, sent)
        for output, piece in zip(outputs, torch.split(flat, received), strict=True):
            output.copy_(piece.view_as(output))
        return _done(outputs)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,  # noqa: A002
        output_sizes: Sequence[int] = (),
        input_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> Any:
        buffer = _buffer(output)
        received = [size * _row(output) for size in output_sizes] or [output.numel() // self.size()] * self.size()
        sent = [size * _row(input) for size in input_sizes] or [input.numel() // self.size()] * self.size()
        self._all_to_all(buffer, _buffer(input), received, sent)
        _give_back(output, buffer)
        return _done([output])

    def _all_to_all(self, into: Tensor, flat: Tensor, received: list[int], sent: list[int]) -> None:
        width = flat.element_size()
        counts = [[size * width for size in sizes] for sizes in (sent, received)]
        call = self.comm.Ialltoallv([_bytes(flat), counts[0], MPI.BYTE], [_bytes(into), counts[1], MPI.BYTE])
        self._do(call, "all_to_all")

    def barrier(self, opts: Any = None) -> Any:
        self._do(self.comm.Ibarrier(), "barrier")
        return _done([])

    # torch 2.12 and older know some under other names
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    # -- messages --------------------------------------------------------------------------------------
    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Any:
        return Pending(self.comm.Isend(_raw(_buffer(tensors[0])), dst, tag), "send", self.limit_s)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Any:
        buffer = _buffer(tensors[0])
        return Pending(self.comm.Irecv(_raw(buffer), src, tag), "recv", self.limit_s, (tensors[0], buffer))

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Any:
        return PendingFromAny(self.comm, tag, self.limit_s, (tensors[0], _buffer(tensors[0])))

    def _do(self, request: Any, what: str) -> None:
        Pending(request, what, self.limit_s).wait()


def _buffer(tensor: Tensor) -> Tensor:
    """Contiguous memory with the tensor's values: its own where it is contiguous."""
    if tensor.device.type != "cpu":
        raise RuntimeError(f"{NAME} moves tensors on the CPU, not on {tensor.device}")
    return tensor.detach().contiguous()


def _give_back(tensor: Tensor, buffer: Tensor) -> None:
    if buffer.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(buffer)


def _bytes(tensor: Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.empty(0, np.uint8)


def _raw(tensor: Tensor) -> Any:
    return [_bytes(tensor), MPI.BYTE]


def _numbers(tensor: Tensor) -> Any:
    if tensor.dtype not in DTYPES:
        raise RuntimeError(f"MPI cannot reduce {tensor.dtype}")
    return tensor.reshape(-1).numpy()


def _operation(opts: Any) -> Any:
    if opts is None:
        return MPI.SUM
    for ours, theirs in OPERATIONS:
        if opts.reduceOp == ours:
            return theirs
    raise RuntimeError("MPI has only the reductions SUM, MIN, MAX and PRODUCT; for an average divide by the world size")


def _row(tensor: Tensor) -> int:
    """Elements in one step along the first dimension."""
    return tensor.numel() // tensor.shape[0] if tensor.numel() else 0


def _done(tensors: list[Tensor]) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future)


def _create(options: Any, _backend_options: Any) -> MpiGroup:
    """Called by torch for the default group and for each new_group, on the group's members only."""
    ranks = list(options.global_ranks_in_group)
    comm = MPI.COMM_WORLD
    if ranks:
        members = comm.Get_group().Incl(ranks)
        comm = comm.Create_group(members, zlib.crc32(str(options.group_id).encode()) % 32768)
    else:
        comm = comm.Dup()
    return MpiGroup(comm, options.timeout.total_seconds())


def _leave() -> None:
    """In order only after destroy_process_group: then nobody waits for anybody."""
    if not dist.is_initialized() and MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


if NAME != "mpi":
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    atexit.register(_leave)
