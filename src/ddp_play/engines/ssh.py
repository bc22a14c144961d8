"""Engine `ssh`: the hosts are the inventory's and are always there; channels are ssh, or a shell of this machine."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.engines.interface import Allocation, AllocationState, Phase

if TYPE_CHECKING:
    from ddp_play.engines.interface import Wanted
    from ddp_play.engines.route import Route

SSH, SHELL = "ssh", "sh"
# Exit code of ssh itself, when it has no connection.
SSH_FAILED = 255


def over_ssh(route: Route) -> bool:
    """Does ssh carry it? Else it is a shell on this machine."""
    return route.program == SSH


class SshEngine:
    """Hosts of the inventory, reached as Ansible reaches them."""

    name, over = "ssh", ""

    def allocate(self, wanted: Wanted) -> Allocation:  # noqa: ARG002 - the interface's
        """Nothing to allocate: the slots on the hosts decide who may use them."""
        return Allocation(self.name)

    def state(self, allocation: Allocation) -> AllocationState:  # noqa: ARG002
        """The hosts of an inventory are there as long as anybody likes."""
        return AllocationState(Phase.GRANTED)

    def cancel(self, allocation: Allocation) -> None:
        """Nothing to give back."""

    def carries(self, route: Route) -> bool:
        """All channels that no other engine opens."""
        return over_ssh(route) or route.program == SHELL

    def fresh(self, route: Route) -> Route:
        """The route without a shared SSH master: if the network fails, its clients hang with the master."""
        if not over_ssh(route):
            return route
        head, *rest = route.argv
        alive = ("-o", "ControlPath=none", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=3")
        return replace(route, argv=(head, *alive, "-o", "ConnectTimeout=5", *rest))

    def usable(self, route: Route) -> Route:
        """This route; without a shared SSH master if the directory of its socket is gone, as it is after a logout.

        ssh ends with an error where it cannot make the socket.
        """
        for word in route.argv if over_ssh(route) else ():
            name, _, path = word.partition("=")
            place = os.path.expanduser(path.strip('"'))  # noqa: PTH111 - Path's raises where there is no such home
            if name == "ControlPath" and not Path(place).parent.is_dir():
                return self.fresh(route)
        return route

    def interactive(self, route: Route, command: str, *, terminal: bool) -> list[str]:
        """As the route, with a terminal on the host if the person has one."""
        if over_ssh(route):
            return [route.argv[0], *(["-t"] if terminal else []), *self.usable(route).argv[1:], command]
        return [*route.argv, command]

    def end(self, client: subprocess.Popen[bytes]) -> None:
        """ssh ends its channel, whatever runs on the host."""
        client.terminate()
        try:
            client.wait(1)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()

    def no_connection(self, route: Route, code: int | None) -> bool:
        """Only ssh has an exit code of its own for this."""
        return over_ssh(route) and code in (None, SSH_FAILED)
