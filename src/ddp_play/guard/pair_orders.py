"""Orders of the network matrix on a channel: listen for the peers of all rounds, measure with one of them, end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from . import pair_counters, pair_measurement
from .refusal import Refused

if TYPE_CHECKING:
    import socket

    from .protocol import Header


class PairOrders:
    """What this host holds for the matrix. `send`: of the channel. Answers have the kind of their order."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.listening: Optional[socket.socket] = None
        self.address = self.interface = self.token = ""

    def on_pair_listen(self, header: Header) -> None:
        """Listen on the address of the plan; answer the port, and what the interface is."""
        self.close()
        self.address, self.interface = str(header["address"]), str(header.get("interface") or "")
        self.token = str(header["token"])
        try:
            self.listening = pair_measurement.listener(self.address)
        except OSError as error:
            raise Refused("cannot listen on %s: %s" % (self.address, error.strerror)) from error
        port = int(self.listening.getsockname()[1])
        self._answer("pair_listen", {"port": port, **pair_counters.interface_facts(self.interface)})

    def on_pair_test(self, header: Header) -> None:
        """Measure with a peer; a host that rests in this round (no `pair`) answers at once."""
        self._answer("pair_test", self._measured(header))

    def _measured(self, header: Header) -> Dict[str, Any]:
        if not header.get("pair"):
            return {}
        if self.listening is None:
            return {"problem": "it does not listen", "unmet": False}
        pair = pair_measurement.Pair(header, self.token)
        try:
            if header.get("first"):
                return pair_measurement.measure_first(pair, self.address, self.interface)
            return pair_measurement.measure_second(pair, self.listening)
        except pair_measurement.PairError as error:
            return {"problem": error.problem, "unmet": error.unmet}
        except OSError as error:
            return {"problem": error.strerror or str(error), "unmet": True}

    def on_pair_end(self, _header: Header) -> None:
        """Give the port up; answer what the interface is now."""
        self.close()
        self._answer("pair_end", pair_counters.interface_facts(self.interface))

    def close(self) -> None:
        """Stop listening."""
        if self.listening is not None:
            self.listening.close()
            self.listening = None

    def _answer(self, kind: str, value: Dict[str, Any]) -> None:
        self.send(kind, json.dumps(value).encode())
