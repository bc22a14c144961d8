"""Stop requests of users: files in the run's control directory, and signals to the supervisor."""

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
class StopRequest:
    """A request to end the run; `now`: with SIGKILL, without a grace period."""

    reason: str
    now: bool


class StopRequests:
    """Reads requests of `ddp-play stop` and Ctrl-C. SIGTERM or SIGINT to this process also request a stop; two: now."""

    def __init__(self, paths: RunPaths) -> None:
        self._control = paths.control
        self._signalled = 0

    def stop(self) -> StopRequest | None:
        """The stop request, None if there is none."""
        order = read_json(self._control / "stop")
        now = (self._control / "stop-now").exists() or self._signalled > 1
        if not (order or now or self._signalled):
            return None
        return StopRequest(order.get("reason") or "stopped on request", now)

    @contextlib.contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Count SIGTERM and SIGINT as requests within this context; raise the limit of open files too."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):  # a channel has three descriptors per host
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
