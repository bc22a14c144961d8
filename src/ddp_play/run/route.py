"""Route to a host: the command that opens a channel to it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Route:
    """Command that opens a channel to a host, from Ansible's connection and become plugins.

    It holds no secret: discovery refuses a host whose connection arguments are from a vault.
    """

    host: str
    argv: tuple[str, ...]  # the command is appended as one argument
    command: str
    become_prompt: str = ""
    become_success: str = ""
    asks_password: bool = False  # the login needs a password: a new connection does, one over a shared master does not

    def to_json(self) -> dict[str, Any]:
        """For channels.json. An earlier version, which knows no logins with a password, can read the other routes."""
        found = asdict(self)
        if not self.asks_password:
            del found["asks_password"]
        return found

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Route:
        """From channels.json or a discover result."""
        return cls(**{**data, "argv": tuple(data["argv"])})

    @property
    def over_ssh(self) -> bool:
        """Does ssh carry it? Else it is a shell on this machine."""
        return bool(self.argv) and os.path.basename(self.argv[0]) == "ssh"  # noqa: PTH119 - an argument, not a path

    def fresh(self) -> Route:
        """The route without a shared SSH master: if the network fails, its clients hang with the master."""
        if not self.over_ssh:
            return self
        head, *rest = self.argv
        alive = ("-o", "ControlPath=none", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=3")
        return replace(self, argv=(head, *alive, "-o", "ConnectTimeout=5", *rest))

    def usable(self) -> Route:
        """This route; without a shared SSH master if the directory of its socket is gone, as it is after a logout.

        ssh ends with an error where it cannot make the socket.
        """
        for word in self.argv if self.over_ssh else ():
            name, _, path = word.partition("=")
            if name == "ControlPath" and not Path(path.strip('"')).expanduser().parent.is_dir():
                return self.fresh()
        return self

    def interactive(self, command: str, *, terminal: bool) -> list[str]:
        """The argv of a person's command on the host, with a terminal there if the person has one."""
        if self.over_ssh:
            return [self.argv[0], *(["-t"] if terminal else []), *self.usable().argv[1:], command]
        return [*self.argv, command]
