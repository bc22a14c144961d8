"""Ranks that Apptainer starts in an image: processes of this host below one of Apptainer's own."""

from __future__ import annotations

import signal
from typing import Any, List, Optional, Tuple

from . import processes
from .ranks import CHILDREN, ProcessRank


class ApptainerRank(ProcessRank):
    """A rank in an image. Its first process is Apptainer's, which forwards every signal that it gets to the command.

    The command is in the same process group, so a signal to the group would reach it twice. SIGKILL is not forwarded.
    A signal to the first process alone (`warn`) reaches the command once.
    """

    def deliver(self, signum: int) -> None:
        """Signal all processes of the group but Apptainer's own, once each; it gets the signal if it is alone."""
        if signum == signal.SIGKILL:
            super().deliver(signum)
            return
        with CHILDREN:
            found = self._inside()
            for pid, ticks in found or [(self.row["pid"], self.row["ticks"])]:
                processes.signal_exactly(pid, ticks, signum)

    def _inside(self) -> List[Tuple[int, Optional[int]]]:
        """(pid, start time) of the group's other processes. Those that mount the image have groups of their own."""
        leader: Any = self.row["pid"]
        if not processes.alive(leader, self.row["ticks"]):
            return []
        return [(pid, processes.start_ticks(pid)) for pid in processes.members(leader) if pid != leader]
