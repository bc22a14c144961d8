"""Work objects that torch waits for: requests of MPI on their way, and calls that are done."""

import time
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # not in the stubs

from .buffers import byte_buffer, copy_back
from .library import MPI

SPIN_S = 0.0005  # then sleep between looks: ranks may share cores
SLEEP_S = 0.0002


class RequestWork:
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
            copy_back(tensor, buffer)
        return True

    def wait(self, timeout: timedelta | None = None) -> bool:
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
            self.matching, self.request = None, message.Irecv(byte_buffer(self.receive[1]))
        return super().is_completed()


def completed_work(tensors: list[Tensor]) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future)
