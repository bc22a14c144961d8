"""Time limit of a verb that answers once: at the limit the program names the step that did not end, and exits."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

EXIT_CODE = 75


class AnswerLimit:
    """The limit of one answer, in seconds; 0: none.

    A thread watches the time: a signal would wait until the system call returns, and on a mount that does not answer it
    does not return. A process in such a call may not end either, but its message is sent.
    """

    def __init__(self, verb: str, limit_s: float = 0) -> None:
        self._verb, self._limit_s, self._step = verb, limit_s, "the start of the program"
        self._timer = threading.Timer(limit_s, self._end) if limit_s > 0 else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def during(self, step: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function; `step` says what it looks at."""
        self._step = step
        return function(*arguments)

    def met(self) -> None:
        """The answer is complete."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        text = "the program on the host did not finish '%s' within %.0f s: it was still at %s\n"
        os.write(2, (text % (self._verb, self._limit_s, self._step)).encode())
        os._exit(EXIT_CODE)
