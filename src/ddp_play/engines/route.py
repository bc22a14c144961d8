"""Route to a host: the command that opens a channel to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import PurePath
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
    def program(self) -> str:
        """Name of the program that opens the channel: `ssh`, `srun`, or a shell of this machine."""
        return PurePath(self.argv[0]).name if self.argv else ""
