"""Signal handlers of a program while ansible-runner runs a playbook in it."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def own_signal_handlers() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM: ansible-runner leaves its own behind, which then do nothing.

    A hangup, when the terminal closes, ends the playbook as SIGTERM does, unless it is ignored (nohup).
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # ansible-runner sets none either
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if handlers[signal.SIGHUP] is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda _number, _frame: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
