"""Stop requests of users: files in the run's control directory, and signals to the supervisor."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json
from ddp_play.run.file_limit import more_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ddp_play.bundle.paths import RunPaths

NOT_STARTED = "stopped before it started"
BEFORE_START = ("lease_port", "stage", "assemble", "check_read", "check_reach", "prepare", "listen", "probe")
AFTER_END = ("drain", "fetch")


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to end the run; `now`: with SIGKILL, without a grace period.

    `requeue`: the engine takes the hosts, and gives others later: the run then goes on with its next attempt.
    """

    reason: str
    now: bool
    requeue: bool = False


class StopRequests:
    """Reads requests of `ddp-play stop` and Ctrl-C. SIGTERM or SIGINT to this process also request a stop; two: now."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._signalled = 0

    def stop(self) -> StopRequest | None:
        """The stop request, None if there is none."""
        order = read_json(self._paths.stop_request(now=False))
        now = self._paths.stop_request(now=True).exists() or self._signalled > 1
        if not (order or now or self._signalled):
            return None
        requeue = bool(order.get("requeue")) and not (now or self._signalled)
        return StopRequest(order.get("reason") or "stopped on request", now, requeue)

    def ends_the_run(self) -> bool:
        """Is the run to end? An order of the engine, which gives other hosts later, does not end it."""
        order = self.stop()
        return order is not None and not order.requeue

    def forget_requeue(self) -> None:
        """Remove a request of the engine that has been carried out: it is not about what follows."""
        if (order := self.stop()) is not None and order.requeue:
            self._paths.stop_request(now=False).unlink(missing_ok=True)

    def later_stop_now(self) -> Callable[[str], str]:
        """A function that says why to stop collecting, as `Gang` asks: a `stop --now` that comes from now on."""
        before = self.stop()

        def interruption(_kind: str) -> str:
            order = self.stop()
            new = order is not None and order.now and not (before is not None and before.now)
            return "stopped with stop --now" if new else ""

        return interruption

    @contextlib.contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Count SIGTERM and SIGINT as requests within this context; raise the limit of open files too."""

        def on_signal(_signum: int, _frame: Any) -> None:
            self._signalled += 1

        before = {signum: signal.signal(signum, on_signal) for signum in (signal.SIGTERM, signal.SIGINT)}
        try:
            with more_files():
                yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


def interruption(order: StopRequest | None, kind: str, *, stop_now_sent: bool) -> str:
    """Why to stop waiting for answers to requests of this kind; empty if there is no reason.

    Before the start any stop request is one. While files are collected only `stop --now` is, unless it was sent
    to end the ranks.
    """
    if order is not None and kind in BEFORE_START:
        return NOT_STARTED
    if order is None or not order.now or stop_now_sent or kind not in AFTER_END:
        return ""
    return f"collecting was stopped: {order.reason}"
