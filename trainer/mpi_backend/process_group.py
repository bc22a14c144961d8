"""Process group over an MPI communicator: the methods that torch.distributed calls, by MPI function."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .buffers import byte_buffer, bytes_of, contiguous_buffer, copy_back, reduction, row_size, typed_array
from .library import MPI, NAME
from .work import AnySourceWork, RequestWork, completed_work

TorchGroup: Any = dist.ProcessGroup  # its type stubs have overloads that a subclass cannot declare


class MpiGroup(TorchGroup):  # type: ignore[misc]  # see above
    """A process group over an MPI communicator, for tensors on the CPU. Its methods wait for the end of the call."""

    def __init__(self, comm: Any, limit_s: float) -> None:
        super().__init__(comm.Get_rank(), comm.Get_size())
        self.comm = comm
        self.limit_s = limit_s

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """The name under which the backend is registered."""
        return NAME

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """MPI_Iallreduce of each tensor, in place."""
        for tensor in tensors:
            buffer = contiguous_buffer(tensor)
            self._run(self.comm.Iallreduce(MPI.IN_PLACE, typed_array(buffer), reduction(opts)), "all_reduce")
            copy_back(tensor, buffer)
        return completed_work(tensors)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """One MPI_Iallreduce per tensor."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        """MPI_Ireduce of one tensor to `opts.rootRank`."""
        buffer, root = contiguous_buffer(tensors[0]), opts.rootRank
        mine = MPI.IN_PLACE if self.rank() == root else typed_array(buffer)
        into = typed_array(buffer) if self.rank() == root else None
        self._run(self.comm.Ireduce(mine, into, reduction(opts), root), "reduce")
        copy_back(tensors[0], buffer)
        return completed_work(tensors)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Any:
        """MPI_Ireduce_scatter_block; each input is a list of equal tensors, one per rank."""
        for output, pieces in zip(outputs, inputs, strict=True):
            self._reduce_scatter(output, torch.cat([piece.reshape(-1) for piece in pieces]), opts)
        return completed_work(outputs)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:  # noqa: A002
        """MPI_Ireduce_scatter_block of one tensor with world size x the elements of `output`."""
        self._reduce_scatter(output, input.contiguous(), opts)
        return completed_work([output])

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """One MPI_Ireduce_scatter_block per pair of tensors."""
        for output, piece in zip(outputs, inputs, strict=True):
            self._reduce_scatter(output, piece.contiguous(), opts)
        return completed_work(outputs)

    def _reduce_scatter(self, output: Tensor, flat: Tensor, opts: Any) -> None:
        buffer = contiguous_buffer(output)
        call = self.comm.Ireduce_scatter_block(typed_array(flat), typed_array(buffer), reduction(opts))
        self._run(call, "reduce_scatter")
        copy_back(output, buffer)

    # From here on data is copied as bytes, so every dtype works.
    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        """MPI_Ibcast of one tensor from `opts.rootRank`."""
        buffer = contiguous_buffer(tensors[0])
        self._run(self.comm.Ibcast(byte_buffer(buffer), opts.rootRank), "broadcast")
        copy_back(tensors[0], buffer)
        return completed_work(tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        """MPI_Iallgather of each input into a list of tensors, one per rank."""
        for rows, tensor in zip(outputs, inputs, strict=True):
            gathered = torch.empty((len(rows), *tensor.shape), dtype=tensor.dtype)
            self._run(self.comm.Iallgather(byte_buffer(contiguous_buffer(tensor)), byte_buffer(gathered)), "all_gather")
            for row, piece in zip(rows, gathered, strict=True):
                row.copy_(piece)
        return completed_work([row for rows in outputs for row in rows])

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        """One MPI_Iallgather per input; `outputs` has one list per rank."""
        # here the outer list goes over ranks, not over inputs
        return self.allgather([[*rows] for rows in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:  # noqa: A002
        """MPI_Iallgather into one tensor with world size x the elements of `input`."""
        buffer = contiguous_buffer(output)
        self._run(self.comm.Iallgather(byte_buffer(contiguous_buffer(input)), byte_buffer(buffer)), "all_gather")
        copy_back(output, buffer)
        return completed_work([output])

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """One MPI_Iallgather per pair of tensors."""
        for output, piece in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, piece, opts)
        return completed_work(outputs)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        """MPI_Igather of one tensor to `opts.rootRank`; `outputs` is empty on the other ranks."""
        tensor, root = inputs[0], opts.rootRank
        gathered = torch.empty((self.size(), *tensor.shape), dtype=tensor.dtype) if self.rank() == root else None
        into = byte_buffer(gathered) if gathered is not None else None
        self._run(self.comm.Igather(byte_buffer(contiguous_buffer(tensor)), into, root), "gather")
        if gathered is not None:
            for row, piece in zip(outputs[0], gathered, strict=True):
                row.copy_(piece)
        return completed_work([tensor])

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        """MPI_Iscatter of a list of tensors from `opts.rootRank`; `inputs` is empty on the other ranks."""
        buffer, root = contiguous_buffer(outputs[0]), opts.rootRank
        rows = byte_buffer(torch.stack(inputs[0])) if self.rank() == root else None
        self._run(self.comm.Iscatter(rows, byte_buffer(buffer), root), "scatter")
        copy_back(outputs[0], buffer)
        return completed_work(outputs)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """MPI_Ialltoallv of lists with one tensor per rank; sizes may differ."""
        sent, received = [item.numel() for item in inputs], [item.numel() for item in outputs]
        flat = torch.empty(sum(received), dtype=outputs[0].dtype)
        self._all_to_all(flat, torch.cat([item.reshape(-1) for item in inputs]), received, sent)
        for output, piece in zip(outputs, torch.split(flat, received), strict=True):
            output.copy_(piece.view_as(output))
        return completed_work(outputs)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,  # noqa: A002
        output_sizes: Sequence[int] = (),
        input_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> Any:
        """MPI_Ialltoallv of one tensor; sizes are rows per rank, and equal parts if they are empty."""
        buffer = contiguous_buffer(output)
        received = [size * row_size(output) for size in output_sizes] or [output.numel() // self.size()] * self.size()
        sent = [size * row_size(input) for size in input_sizes] or [input.numel() // self.size()] * self.size()
        self._all_to_all(buffer, contiguous_buffer(input), received, sent)
        copy_back(output, buffer)
        return completed_work([output])

    def _all_to_all(self, into: Tensor, flat: Tensor, received: list[int], sent: list[int]) -> None:
        width = flat.element_size()
        counts = [[size * width for size in sizes] for sizes in (sent, received)]
        call = self.comm.Ialltoallv([bytes_of(flat), counts[0], MPI.BYTE], [bytes_of(into), counts[1], MPI.BYTE])
        self._run(call, "all_to_all")

    def barrier(self, opts: Any = None) -> Any:
        """MPI_Ibarrier."""
        self._run(self.comm.Ibarrier(), "barrier")
        return completed_work([])

    # names in torch 2.12 and older
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Any:
        """MPI_Isend of one tensor."""
        return RequestWork(self.comm.Isend(byte_buffer(contiguous_buffer(tensors[0])), dst, tag), "send", self.limit_s)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Any:
        """MPI_Irecv of one tensor from rank `src`."""
        buffer = contiguous_buffer(tensors[0])
        return RequestWork(self.comm.Irecv(byte_buffer(buffer), src, tag), "recv", self.limit_s, (tensors[0], buffer))

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Any:
        """Receive of one tensor from any rank; see AnySourceWork."""
        return AnySourceWork(self.comm, tag, self.limit_s, (tensors[0], contiguous_buffer(tensors[0])))

    def _run(self, request: Any, what: str) -> None:
        RequestWork(request, what, self.limit_s).wait()
