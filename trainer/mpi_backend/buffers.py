"""Buffers and reductions for MPI calls: contiguous memory of a tensor, with its type or as bytes."""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .library import MPI, NAME

DTYPES = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64}
OPERATIONS = (
    (dist.ReduceOp.SUM, MPI.SUM),
    (dist.ReduceOp.MIN, MPI.MIN),
    (dist.ReduceOp.MAX, MPI.MAX),
    (dist.ReduceOp.PRODUCT, MPI.PROD),
)


def contiguous_buffer(tensor: Tensor) -> Tensor:
    """The tensor itself if it is contiguous, else a contiguous copy; RuntimeError if it is not on the CPU."""
    if tensor.device.type != "cpu":
        raise RuntimeError(f"{NAME} moves tensors on the CPU, not on {tensor.device}")
    return tensor.detach().contiguous()


def copy_back(tensor: Tensor, buffer: Tensor) -> None:
    """Copy a received buffer to its tensor, unless both are the same memory."""
    if buffer.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(buffer)


def bytes_of(tensor: Tensor) -> Any:
    """The memory of a contiguous tensor as an array of bytes, shared with it."""
    return tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.empty(0, np.uint8)


def byte_buffer(tensor: Tensor) -> Any:
    """The tensor as an mpi4py buffer of bytes, for calls that copy: every dtype works."""
    return [bytes_of(tensor), MPI.BYTE]


def typed_array(tensor: Tensor) -> Any:
    """The tensor as a numpy array, for reductions; RuntimeError if MPI cannot reduce its dtype."""
    if tensor.dtype not in DTYPES:
        raise RuntimeError(f"MPI cannot reduce {tensor.dtype}")
    return tensor.reshape(-1).numpy()


def reduction(opts: Any) -> Any:
    """The MPI operation of torch's options (`opts.reduceOp`), SUM without options; RuntimeError if MPI has none."""
    if opts is None:
        return MPI.SUM
    for ours, theirs in OPERATIONS:
        if opts.reduceOp == ours:
            return theirs
    raise RuntimeError("MPI has only the reductions SUM, MIN, MAX and PRODUCT; for an average divide by the world size")


def row_size(tensor: Tensor) -> int:
    """Number of elements in one row of the tensor (one index of the first dimension)."""
    return tensor.numel() // tensor.shape[0] if tensor.numel() else 0
