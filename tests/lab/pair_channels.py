"""Channels to the hosts of a lab, and the orders of a check over them, without a playbook."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.checks.check_exchange import Exchange
from ddp_play.checks.pair_exchange import MatrixSettings
from ddp_play.checks.pair_samples import PairEnd
from ddp_play.engines.route import Route
from ddp_play.run.host_channel import ProcessChannel
from ddp_play.run.host_program import shell_command

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = MatrixSettings(seconds=0.6)


def addresses(inventory: Path) -> dict[str, str]:
    """Address by host of a lab's inventory."""
    group = yaml.safe_load(inventory.read_text(encoding="utf-8"))["all"]["children"]["ranks"]
    return {name: row["ansible_host"] for name, row in group["hosts"].items()}


def ends(inventory: Path) -> dict[str, PairEnd]:
    """The hosts of a lab as ends of the matrix."""
    return {host: PairEnd(host, address, "eth0") for host, address in addresses(inventory).items()}


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
class Orders(Exchange):
    """Orders to all hosts at once, as the check gives them. `between`: called while answers are waited for."""

    between: Any = lambda _kind: None

    def _take(self, kind: str, host: str, row: Any) -> None:
        self.between(kind)
        super()._take(kind, host, row)
