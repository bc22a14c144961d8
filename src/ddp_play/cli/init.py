"""`ddp-play init DIR`: files of a new site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.next_commands import NextCommand, as_word, ddp_play, show
from ddp_play.errors import UsageError
from ddp_play.lab.spec import JobEngine
from ddp_play.lab.state import inventory as lab_inventory
from ddp_play.lab.state import lab_state
from ddp_play.provisioning.site_scaffold import (
    DEFAULT_USER,
    RankRuntime,
    Site,
    SiteHost,
    parse_hosts,
    site_commands,
    write_site,
)

Runtime = Annotated[RankRuntime, typer.Option("--runtime", help="Ranks as containers or as processes.")]
SharedDir = Annotated[str, typer.Option("--shared-dir", metavar="DIR", help="Directory that all hosts share already.")]


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty directory.")],
    *,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", metavar="NAME=ADDRESS", help="A host of the site. Can be repeated.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help=f"User who logs in to the hosts; {DEFAULT_USER} if not given.")
    ] = None,
    lab: Annotated[str, typer.Option("--lab", metavar="NAME", help="Hosts and login of this lab.")] = "",
    runtime: Runtime = RankRuntime.DOCKER,
    shared_dir: SharedDir = "",
    cpu: Annotated[bool, typer.Option("--cpu", help="Hosts without GPUs.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a new site: an inventory with commented settings, a first job, a vault example; print the next commands.

    The commands lead from the new files to a trained model. Without --host or --lab the hosts are examples.

    [bold]Examples[/]

      ddp-play init cluster --host gpu01=10.0.0.11 --host gpu02=10.0.0.12 --user ops

      ddp-play init cluster --lab lab --runtime process
    """
    with error_boundary():
        if lab and (hosts or user is not None):
            raise UsageError("--lab excludes --host and --user", hint="a lab has its own hosts and login")
        login = DEFAULT_USER if user is None else user
        wanted = Site(parse_hosts(hosts or []), user=login, runtime=runtime, shared_dir=shared_dir, cpu=cpu)
        site = _with_hosts_of_lab(wanted, lab) if lab else wanted
        written = write_site(directory, site)
        commands = _next_commands(directory, site)
        if as_json:
            rows = [row.to_json() for row in commands]
            files = [str(path) for path in written]
            console.as_json({"directory": str(directory.absolute()), "files": files, "next": rows})
        else:
            _show(directory, site, written, commands)


def _show(directory: Path, site: Site, written: tuple[Path, ...], commands: tuple[NextCommand, ...]) -> None:
    for path in written:
        console.line(str(directory / path))
    if site.hosts:
        show(f"{counted(len(site.hosts), 'host')}. Next:", commands)
        return
    console.line(f"Put your hosts into {directory / 'inventory/hosts.yml'}, and their login into")
    console.line(f"{directory / 'inventory/group_vars/all/main.yml'}. Then:")
    show("", commands)


def _next_commands(directory: Path, site: Site) -> tuple[NextCommand, ...]:
    """Commands that go from the new directory to a trained model."""
    change = NextCommand(f"cd {as_word(directory)}", "the commands below run in the site's directory")
    rows = (NextCommand(ddp_play(*row.words), row.purpose) for row in site_commands(site))
    return (change, *rows)


def _with_hosts_of_lab(site: Site, name: str) -> Site:
    """The site with the hosts and the login of a lab. Raises UsageError if there is none."""
    state = lab_state(name)
    plan = state.load_plan()
    if plan is None:
        raise UsageError(f"there is no lab named {name}", hint=f"ddp-play lab up --name {name}")
    ranks = lab_inventory(state, plan)["all"]["children"]["ranks"]
    login = {key: value for key, value in ranks["vars"].items() if key.startswith("ansible_") and key != "ansible_user"}
    return replace(
        site,
        hosts=tuple(SiteHost(host.name, host.addresses[0]) for host in plan.hosts),
        user=plan.spec.user,
        login=tuple(login.items()),
        cpu=True,
        of_lab=True,
        has_engine=plan.spec.engine,
        has_slurm=plan.spec.job_engine is JobEngine.SLURM,
    )
