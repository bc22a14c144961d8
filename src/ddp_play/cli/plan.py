"""`ddp-play plan`: plan of a run with the reason of each choice; nothing is started."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import HostPlan, Plan, command_line
from ddp_play.run.dry_run import dry_run
from ddp_play.run.existing_plan import existing_plan

HOSTS_SHOWN = 40
FOLDED = 40  # width that is left for values and sources, which are folded


@options.with_ansible
def plan(
    *,
    playbook: options.Playbook = None,
    inventory: options.Inventory = None,
    rank: Annotated[
        int | None, typer.Option("--rank", help="Rank whose environment and command to print; 0 if not given.")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--of", help="Existing plan: a run's id, or a file that plan --json wrote. Asks no host."),
    ] = None,
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

      ddp-play plan --of calm-otter-123 --rank 3 --json

      ddp-play plan train.yml -i inventory --json | jq .hosts
    """
    with error_boundary():
        if of is not None:
            if playbook or inventory or cached or ansible != options.Ansible():
                excluded = "no playbook, no inventory, no --cached and none of Ansible's options go with it"
                raise UsageError(f"--of names an existing plan: {excluded}", hint=f"ddp-play plan --of {of or 'RUN'}")
            if not of:
                raise UsageError("--of is empty", hint="give a run's id, or a file that plan --json wrote")
            show_plan(existing_plan(of), as_json=as_json, rank=rank)
            return
        show_planned(playbook, inventory, ansible, as_json=as_json, rank=rank, cached=cached)


def show_planned(
    playbook: str | None,
    inventory: list[str] | None,
    ansible: options.Ansible,
    *,
    as_json: bool,
    rank: int | None = None,
    cached: bool = False,
) -> None:
    """Plan without starting anything, and print the plan."""
    request = ansible.request(playbook, inventory)
    passwords = ansible.passwords()
    show_plan(dry_run(request, passwords, AnsibleRunner(), cached=cached), as_json=as_json, rank=rank)


def show_plan(made: Plan, *, as_json: bool = False, rank: int | None = None) -> None:
    """Print the plan as tables, or as JSON; with `rank`, the JSON of that rank alone."""
    if rank is not None and rank not in range(made.world_size):
        raise UsageError(f"the plan has ranks 0 to {made.world_size - 1}, not {rank}")
    if as_json:
        console.as_json(made.to_json() if rank is None else made.rank_to_json(rank))
        return
    for key, value in _headlines(made):
        console.out.print(f"[bold]{key:<12}[/] {escape(value)}")
    console.wide_table(_hosts_table(made))
    for warning in made.warnings:
        console.out.print(f"[yellow]warning[/]      {escape(warning)}")
    for name, why in made.left_out:
        console.out.print(f"[yellow]left out[/]     {escape(name)}: {escape(why)}")
    for line in made.script:
        console.out.print(f"[bold]{'script':<12}[/] {escape(line)}")
    _show_rank(made, rank or 0)


def _headlines(made: Plan) -> list[tuple[str, str]]:
    rows = [
        ("ranks", f"{made.world_size} on {counted(len(made.hosts), 'host')}"),
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
    numa = any(host.numa_mode != "none" for host in made.hosts)
    for column in ("host", "ranks", "interface", "address", "GPUs", *(("NUMA",) if numa else ()), "runs as"):
        table.add_column(column)
    table.add_column("working directory")
    for host in made.hosts if len(made.hosts) <= HOSTS_SHOWN else made.hosts[: HOSTS_SHOWN - 1]:
        cells = (
            host.name,
            _rank_span(host),
            host.interface,
            host.address,
            ",".join(str(gpu) for gpu in host.gpus) or "-",
            *((host.numa_mode,) if numa else ()),
            host.user_name,
            host.workdir,
        )
        table.add_row(*map(escape, cells))
    if len(made.hosts) > HOSTS_SHOWN:
        blanks = [""] * (len(table.columns) - 2)
        table.add_row(f"and {len(made.hosts) - HOSTS_SHOWN + 1} more", *blanks, "--json lists them all")
    return table


def _rank_span(host: HostPlan) -> str:
    first, last = host.ranks[0], host.ranks[-1]
    return str(first) if first == last else f"{first}-{last}"


def _show_rank(made: Plan, rank: int) -> None:
    host = made.host_of(rank)
    chosen = host.rank(rank)
    title = f"rank {rank}'s environment"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, no_wrap=True)
    for column in ("value", "source"):
        table.add_column(column, overflow="fold")
    for var in chosen.env:
        table.add_row(*map(escape, (var.name, var.value.replace("\n", "\\n"), var.source)))
    console.out.print()
    console.wide_table(table, columns=max(len(title), *(len(var.name) for var in chosen.env)) + FOLDED)
    if binding := host.binding(rank):
        memory = f", memory of node(s) {binding.memory_nodes}" if binding.memory_nodes else ""
        console.line(f"\nrank {rank}'s NUMA node {binding.node}: CPUs {binding.cpus}{memory}")
    console.out.print(f"\n[bold]rank {rank}'s command[/]")
    console.line(command_line(chosen))
    if agent := host.agent:
        console.out.print(f"\n[bold]{escape(host.name)}'s {made.launcher}[/]")
        console.line(command_line(agent))
