"""`ddp-play top`: all runs on the hosts of an inventory, whose they are, and how busy the hosts are."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Annotated, Any

import typer

from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookRequest
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.run_view import no_screen
from ddp_play.cli.screen.fleet_page import fleet_frame, fleet_lines, summary
from ddp_play.errors import HostNotReady
from ddp_play.run.activity_viewer import LiveActivity, ask_once

TICK_S = 0.5
MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -(10**6), "end": 10**6}


@options.with_ansible
def top(
    *,
    inventory: options.Inventory = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print one table and end, as where there is no terminal.")
    ] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Watch all runs on the hosts: whose they are, slots, CPU, memory and GPUs. Every 3 s, over open channels.

    Runs of other users are shown as far as a host lets you see them.

    [bold]Examples[/]

      ddp-play top -i inventory

      ddp-play top -i inventory --once

      ddp-play top -i inventory --json
    """
    with error_boundary():
        request, passwords = ansible.request_for_hosts(inventory), ansible.passwords()
        if as_json or once or no_screen():
            _show(ask_once(request, passwords, AnsibleRunner()), as_json=as_json)
        else:
            with contextlib.suppress(KeyboardInterrupt):
                _watch(request, passwords)


def _show(document: dict[str, Any], *, as_json: bool) -> None:
    hosts = document["hosts"]
    if as_json:
        console.as_json({"hosts": hosts})
    else:
        _print(hosts)
    if any(row["problem"] for row in hosts.values()):
        raise typer.Exit(HostNotReady.exit_code)


def _print(hosts: dict[str, Any]) -> None:
    console.line(summary(hosts))
    for row in fleet_lines(hosts, console.out.width):
        console.line("".join(text for text, _ in row).rstrip())
    for name, host in hosts.items():
        if host["problem"]:
            console.error(f"{name}: {host['problem']}", hint=host["hint"])


def _watch(request: PlaybookRequest, passwords: Passwords) -> None:
    from ddp_play.cli.screen.terminal import Terminal  # noqa: PLC0415 - only on terminals

    hosts: dict[str, Any] = {}
    first, answered, key = 0, 0.0, ""
    with LiveActivity(request, passwords) as activity, Terminal(colours="NO_COLOR" not in os.environ) as terminal:
        while key not in ("q", "escape"):
            if found := activity.newest():
                hosts, answered = found["hosts"], found["time"]
            seconds = time.time() - answered if answered else None
            rows, first = fleet_frame(hosts, terminal.size, first + MOVES.get(key, 0), seconds=seconds)
            terminal.draw(rows)
            key = terminal.key(TICK_S)
