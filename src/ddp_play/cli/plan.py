"""`ddp-play plan`: plan of a run with the reason of each choice; nothing is started."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.planning.plan_document import HostPlan, Plan, command_line
from ddp_play.run.dry_run import dry_run

HOSTS_SHOWN = 40


@options.with_ansible
def plan(
    *,
    playbook: options.Playbook = None,
    inventory: options.Inventory = None,
    rank: Annotated[int, typer.Option("--rank", help="Rank whose environment and command to print.")] = 0,
    cached: Annotated[bool, typer.Option("--cached", help="Use the host facts of the last discovery.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Print the plan: ranks, network, backend, every variable with its source, the exact commands.

    The hosts report their facts; the playbook's own tasks do not run. Values that are not known
    before launch are in angle brackets: <run_id>, <head_port>.

    [bold]Examples[/]

      ddp-play plan train.yml -i inventory

      ddp-play plan train.yml -i inventory --rank 3

      ddp-play plan train.yml -i inventory --json | jq .hosts
    """
    with error_boundary():
        request = ansible.request(playbook, inventory)
        passwords = ansible.passwords()
        show_plan(dry_run(request, passwords, AnsibleRunner(), cached=cached), as_json=as_json, rank=rank)


def show_plan(made: Plan, *, as_json: bool = False, rank: int = 0) -> None:
    """Print the plan as tables, or as JSON."""
    if as_json:
        console.as_json(made.to_json())
        return
    for key, value in _headlines(made):
        console.out.print(f"[bold]{key:<12}[/] {escape(value)}")
    console.out.print(_hosts_table(made))
    for warning in made.warnings:
        console.out.print(f"[yellow]warning[/]      {escape(warning)}")
    for name, why in made.left_out:
        console.out.print(f"[yellow]left out[/]     {escape(name)}: {escape(why)}")
    for line in made.script:
        console.out.print(f"[bold]{'script':<12}[/] {escape(line)}")
    _show_rank(made, rank)


def _headlines(made: Plan) -> list[tuple[str, str]]:
    rows = [
        ("ranks", f"{made.world_size} on {len(made.hosts)} host(s)"),
        ("runtime", made.runtime + (f": {made.image}" if made.image else "")),
        ("backend", f"{made.backend}   ({made.backend_reason})"),
        ("fabric", f"{made.fabric} {made.network}   ({made.fabric_reason})"),
        ("init", f"{made.init_url}   ({made.init_reason})"),
        ("head", f"{made.head} at {made.head_addr}, port leased from {made.port_range[0]}-{made.port_range[1]}"),
    ]
    if made.launcher != "ranks":
        rows.insert(5, ("launcher", f"{made.launcher}, one a host; it numbers and starts the host's ranks"))
    if made.source:
        how = "on the shared directory" if made.source_shared else "copied to each host"
        rows.append(("source", f"{made.source}, {how}"))
    return rows


def _hosts_table(made: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("host", "ranks", "interface", "address", "GPUs", "runs as", "working directory"):
        table.add_column(column)
    for host in made.hosts if len(made.hosts) <= HOSTS_SHOWN else made.hosts[: HOSTS_SHOWN - 1]:
        table.add_row(
            host.name,
            _rank_span(host),
            host.interface,
            host.address,
            ",".join(str(gpu) for gpu in host.gpus) or "-",
            host.user_name,
            host.workdir,
        )
    if len(made.hosts) > HOSTS_SHOWN:
        table.add_row(f"and {len(made.hosts) - HOSTS_SHOWN + 1} more", "", "", "", "", "", "--json lists them all")
    return table


def _rank_span(host: HostPlan) -> str:
    first, last = host.ranks[0].rank, host.ranks[-1].rank
    return str(first) if first == last else f"{first}-{last}"


def _show_rank(made: Plan, rank: int) -> None:
    chosen = next((row for host in made.hosts for row in host.ranks if row.rank == rank), made.hosts[0].ranks[0])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (f"rank {chosen.rank}'s environment", "value", "source"):
        table.add_column(column, overflow="fold")
    for var in chosen.env:
        table.add_row(var.name, escape(var.value.replace("\n", "\\n")), var.source)
    console.out.print()
    console.out.print(table)
    console.out.print(f"\n[bold]rank {chosen.rank}'s command[/]")
    console.line(command_line(chosen))
    host = next(item for item in made.hosts if chosen in item.ranks)
    if host.agent is not None:
        console.out.print(f"\n[bold]{escape(host.name)}'s {made.launcher}[/]")
        console.line(command_line(host.agent))
