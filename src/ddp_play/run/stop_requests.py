"""Stop requests by people: files in the run's control directory, and signals to the supervising process."""

from __future__ import annotations

import contextlib
import resource
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.bundle.paths import RunPaths


@dataclass(frozen=True, slots=True)
class StopOrder:
    """Somebody wants the run to end."""

    reason: str
    now: bool


class Orders:
    """What `stop` and Ctrl-C left in the mailbox; TERM or INT to this process mean the same, twice means now."""

    def __init__(self, paths: RunPaths) -> None:
        self._control = paths.control
        self._signalled = 0

    def stop(self) -> StopOrder | None:
        """The order to stop, if there is one."""
        order = read_json(self._control / "stop")
        now = (self._control / "stop-now").exists() or self._signalled > 1
        if not (order or now or self._signalled):
            return None
        return StopOrder(order.get("reason") or "stopped on request", now)

    @contextlib.contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Hear signals for as long as this lasts."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):  # three descriptors a host
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

        def on_signal(_signum: int, _frame: Any) -> None:
            self._signalled += 1

        before = {signum: signal.signal(signum, on_signal) for signum in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
