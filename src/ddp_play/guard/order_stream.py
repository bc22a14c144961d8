"""Orders of the controller on a channel, in their order; one that takes long can be withdrawn."""

from __future__ import annotations

import os
import select
from collections import deque
from typing import Deque

from .protocol import Frame, FrameReader

WITHDRAW = "withdraw"


def hung_up(fd: int = 0) -> bool:
    """Whether the controller has ended the connection, also where its last orders are still to be read."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return any(event & (select.POLLHUP | select.POLLRDHUP) for _, event in poll.poll(0))


class OrderStream:
    """Orders that arrive on a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._reader = FrameReader()
        self._waiting: Deque[Frame] = deque()

    def __bool__(self) -> bool:
        """Whether an order waits to be executed."""
        return bool(self._waiting)

    def receive(self) -> bool:
        """Read what has arrived, or wait for it; False at the end of the connection."""
        data = os.read(self._fd, 1 << 20)
        self._waiting.extend(self._reader.feed(data))
        return bool(data)

    def take(self) -> Frame:
        """The next order."""
        return self._waiting.popleft()

    def withdrawn(self) -> bool:
        """Whether the controller has withdrawn the order that is being executed, or is gone."""
        if select.select([self._fd], [], [], 0)[0] and not self.receive():
            return True
        return any(header["t"] == WITHDRAW for header, _ in self._waiting)
