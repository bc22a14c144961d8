"""Channels to the hosts of a lab for the network matrix, and its orders over them, without a playbook."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.host_program import shell_command
from ddp_play.run.route import Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def addresses(inventory: Path) -> dict[str, str]:
    """Address by host of a lab's inventory."""
    group = yaml.safe_load(inventory.read_text(encoding="utf-8"))["all"]["children"]["ranks"]
    return {name: row["ansible_host"] for name, row in group["hosts"].items()}


def open_channels(inventory: Path) -> dict[str, ProcessChannel]:
    """A channel to each host, as the user of the inventory."""
    values = yaml.safe_load(inventory.read_text(encoding="utf-8"))["all"]["children"]["ranks"]["vars"]
    options = ["-i", values["ansible_ssh_private_key_file"], *shlex.split(values["ansible_ssh_common_args"])]
    command = f"/bin/sh -c {shlex.quote(shell_command('/usr/bin/python3', 'channel'))}"
    return {
        name: ProcessChannel(Route(name, ("ssh", *options, f"{values['ansible_user']}@{address}"), command))
        for name, address in addresses(inventory).items()
    }


@dataclass
class Orders:
    """Orders to all hosts at once. `between`: called while answers are waited for."""

    channels: dict[str, ProcessChannel]
    lost: dict[str, str] = field(default_factory=dict)
    between: Any = lambda _kind: None

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        """By host, the JSON object that it answers."""
        asked = [host for host in fields if host not in self.lost]
        for host in asked:
            self.channels[host].send(kind, **fields[host])
        found: dict[str, Any] = {}
        until = time.monotonic() + limit_s
        while (waiting := [host for host in asked if host not in found and host not in self.lost]) and (
            time.monotonic() < until
        ):
            wait_any([self.channels[host] for host in waiting], 0.2)
            self.between(kind)
            for host, document in self._taken(kind, waiting):
                found[host] = document
        self.lost.update(dict.fromkeys(waiting, f"no answer to {kind} within {limit_s:g} s"))
        return found

    def _taken(self, kind: str, waiting: list[str]) -> Iterator[tuple[str, Any]]:
        for host in waiting:
            for header, payload in self.channels[host].receive():
                if header["t"] == kind:
                    yield host, json.loads(payload)
                elif header["t"] == "refused":
                    self.lost[host] = str(header["message"])
            if self.channels[host].broken and host not in self.lost:
                self.lost[host] = f"the connection ended during {kind}: {self.channels[host].broken}"

    def close(self) -> None:
        """End all channels."""
        for channel in self.channels.values():
            channel.send("bye")
            channel.pump()
            channel.close()
