"""Work objects that torch waits for: pending MPI requests and completed calls."""

import time
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # not in the stubs

from .buffers import byte_buffer, copy_back
from .library import MPI

SPIN_S = 0.0005  # poll for this time, then sleep between polls: ranks may share cores
SLEEP_S = 0.0002


class RequestWork:
    """A pending MPI request. `receive` is (tensor, buffer): the buffer is copied to the tensor at the end."""

    def __init__(self, request: Any, what: str, limit_s: float, receive: tuple[Tensor, Tensor] | None = None) -> None:
        self.request = request
        self.what = what
        self.limit_s = limit_s
        self.receive = receive
        self.source = -1

    def is_completed(self) -> bool:
        """Poll the request; at its end the received data is in the tensor."""
        status = MPI.Status()
        if self.request is None:
            return True
        if not self.request.Test(status):
            return False
        self.request, self.source = None, status.Get_source()
        if self.receive is not None:
            tensor, buffer = self.receive
            copy_back(tensor, buffer)
        return True

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return True at the end of the request; RuntimeError after the timeout (default: that of the group)."""
        limit_s = timeout.total_seconds() if timeout else self.limit_s
        started = time.monotonic()
        while not self.is_completed():
            waited = time.monotonic() - started
            if waited > limit_s:
                raise RuntimeError(f"Timed out waiting {limit_s * 1000:.0f}ms for {self.what} over MPI")
            if waited > SPIN_S:
                time.sleep(SLEEP_S)
        return True

    def _source_rank(self) -> int:
        return self.source


class AnySourceWork(RequestWork):
    """A receive from any source: the request starts when a matching message has arrived.

    A plain MPI_Irecv from any source did not always end over three hosts: MPICH posts it twice, for processes on the
    same host and for the network, and cancels one of them when the other one has matched.
    """

    def __init__(self, comm: Any, tag: int, limit_s: float, receive: tuple[Tensor, Tensor]) -> None:
        super().__init__(None, "recv", limit_s, receive)
        self.matching: tuple[Any, int] | None = (comm, tag)

    def is_completed(self) -> bool:
        """Probe for a message and start its receive, then poll that."""
        if self.matching is not None:
            comm, tag = self.matching
            message = comm.Improbe(MPI.ANY_SOURCE, tag)
            if message is None:
                return False
            assert self.receive is not None
            self.matching, self.request = None, message.Irecv(byte_buffer(self.receive[1]))
        return super().is_completed()


def completed_work(tensors: list[Tensor]) -> Any:
    """A torch Work object that is already complete, with `tensors` as its result."""
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future)
