"""Start of a run from a terminal: its bundle and its background process, which Ctrl-C cannot leave half made."""

from __future__ import annotations

import contextlib
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.cli import console
from ddp_play.errors import Interrupted
from ddp_play.run.submission import create_run, discard_run, start_background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.bundle.paths import RunPaths


@dataclass
class Held:
    """Whether an interrupt came while none was raised."""

    came: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """A run with a background process. `interrupted`: Ctrl-C or SIGTERM came while it was started."""

    paths: RunPaths
    interrupted: bool = False


@contextlib.contextmanager
def held_interrupts() -> Iterator[Held]:
    """Note SIGINT and SIGTERM within this context: no KeyboardInterrupt. One that is ignored stays so."""
    held = Held()

    def on_signal(_signum: int, _frame: Any) -> None:
        held.came = True

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_run(request: PlaybookRequest, passwords: Passwords, *, name: str, output: Path | None) -> Started:
    """Make the run's bundle and start its background process. Interrupted, without a bundle, if it is not started.

    An interrupt that comes later is for who watches the run: it has to be stopped, which takes its time.
    """
    with held_interrupts() as held:
        paths = create_run(request, name=name, output=output, argv=sys.argv)
        if held.came:
            discard_run(paths, output)
            raise Interrupted(f"interrupted before run {paths.run_id} was started: nothing was started or kept")
        console.note_if_any(start_background(paths, passwords))
    return Started(paths, held.came)
