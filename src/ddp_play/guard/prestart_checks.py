"""Orders of the checks between hosts before the start: whether probes arrive, and whether locks are seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from . import network_probe, shared_lock_check
from .refusal import Refused

if TYPE_CHECKING:
    from .protocol import Header


class PrestartChecks:
    """Sockets and the lock that this host holds for the checks of other hosts. `send`: of the channel."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.listeners: List[network_probe.Listener] = []
        self.held: Optional[shared_lock_check.Held] = None

    def on_listen(self, header: Header, _payload: bytes) -> None:
        """Listen for probes on the address of the fabric, on a free port and on the port `also`."""
        try:
            ports = {0, int(header.get("also", 0))}
            self.listeners = [network_probe.Listener(header["address"], port) for port in ports]
        except OSError as error:
            raise Refused("cannot listen on %s: %s" % (header["address"], error.strerror)) from error
        self.send("listening", port=next(item.port for item in self.listeners if item.port != header.get("also")))

    def close_listeners(self) -> None:
        """Give the ports up: the ranks may need them."""
        for listener in self.listeners:
            listener.close()
        self.listeners = []

    def on_hold_lock(self, header: Header, _payload: bytes) -> None:
        """Lock a file in the shared directory; other hosts check that they see the lock."""
        try:
            self.held = shared_lock_check.Held(Path(header["path"]), header["word"])
        except OSError as error:
            raise Refused("cannot lock %s: %s" % (header["path"], error.strerror)) from error
        self.send("lock_held")

    def on_see_lock(self, header: Header, _payload: bytes) -> None:
        """Check a file that another host holds locked."""
        self.send("lock_seen", problem=shared_lock_check.problem(Path(header["path"]), header["word"]))

    def on_drop_lock(self, _header: Header, _payload: bytes) -> None:
        """Release the lock: the other hosts have checked it."""
        if self.held is not None:
            self.held.close()
            self.held = None
        self.send("lock_dropped")

    def on_probe(self, header: Header, _payload: bytes) -> None:
        """Connect to the listeners of the peers; answer those that failed."""
        targets = [(str(address), int(port)) for address, port in header["targets"]]
        only = [int(port) for port in header.get("connect_only", ())]
        self.send("probed", failed=network_probe.connect(targets, header["source"], float(header["timeout_s"]), only))
