"""One host as the controller knows it during an attempt: its route, its channel and its last report."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import HOST_SHUTS_DOWN
from ddp_play.run.host_files import HostFiles

if TYPE_CHECKING:
    from ddp_play.engines.route import Route
    from ddp_play.run.host_channel import ProcessChannel
    from ddp_play.run.host_spec import HostPlace

# A host sends a heartbeat per second, also while it prepares or sends files. After this time without one it has failed.
SILENCE_S = 60.0


@dataclass
class Link:
    """One host: its route, its channel and its last messages."""

    name: str
    route: Route
    become_password: str = field(default="", repr=False)
    ssh_password: str = field(default="", repr=False)
    channel: ProcessChannel | None = None
    place: HostPlace | None = None
    state: dict[str, Any] = field(default_factory=dict)
    guard_gone: bool = False
    clock_offset_s: float = 0.0
    uptime_s: float | None = None  # host uptime in its last message; heartbeats renew the lease with it
    heard: float = field(default_factory=time.monotonic)
    excused_s: float = 0.0  # part of the silence in which the controller itself was stalled
    asked: float = 0.0
    asked_beat: float = 0.0
    opened_at: float = 0.0
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, Any] | None = None
    following: bool = False
    gaps: int = 0  # pieces of files sent beyond the end of what is here
    lost: str = ""  # unreachable for good
    ranks_lost: str = ""  # reachable, but the state of its ranks is unknown
    ranks: frozenset[int] = frozenset()
    files: HostFiles = field(default_factory=HostFiles)

    @property
    def connected(self) -> bool:
        """Does it have a channel that is not broken?"""
        return self.channel is not None and not self.channel.broken

    @property
    def shuts_down(self) -> bool:
        """Did its guard say that the host shuts down?"""
        return bool(self.state.get("reason") == HOST_SHUTS_DOWN)

    def silent_s(self) -> float:
        """Seconds since the host's last message, without those in which the controller was stalled."""
        return time.monotonic() - self.heard - self.excused_s
