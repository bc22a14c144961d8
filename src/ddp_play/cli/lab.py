"""`ddp-play lab`: a cluster of container hosts on this machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.lab_demo import demo
from ddp_play.cli.next_commands import NextCommand, ddp_play
from ddp_play.cli.next_commands import show as show_commands
from ddp_play.cli.progress_display import progress
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.images.recipe import CPU_TAG, Kind
from ddp_play.lab.base_image import ensure_host_image
from ddp_play.lab.docker_client import connect
from ddp_play.lab.layout import find_host
from ddp_play.lab.lifecycle import UpResult
from ddp_play.lab.lifecycle import down as lab_down
from ddp_play.lab.lifecycle import up as lab_up
from ddp_play.lab.spec import DEFAULT_NAME, USERS, Distro, JobEngine, LabSpec, make_spec, parse_slots
from ddp_play.lab.state import lab_state, ssh_options
from ddp_play.lab.status import LabStatus, read_status

app = typer.Typer(no_args_is_help=True, help="A cluster of real hosts (systemd, sshd, Docker) on this machine.")

app.command()(demo)
Name = Annotated[str, typer.Option("--name", help="The lab's name; several labs can run at the same time.")]


@app.command()
def up(
    *,
    hosts: Annotated[int, typer.Option("--hosts", help="How many hosts.")] = 2,
    slots: Annotated[
        str, typer.Option("--slots", help="Slots of the hosts: one number, or one per host (2,1,1).")
    ] = "",
    distro: Annotated[Distro, typer.Option("--distro", help="The hosts' Debian release.")] = Distro.BOOKWORM,
    fabrics: Annotated[int, typer.Option("--fabrics", help="2 adds a slow network, which carries SSH.")] = 1,
    name: Name = DEFAULT_NAME,
    subnet: Annotated[list[str] | None, typer.Option("--subnet", help="Network to use, once per fabric.")] = None,
    user: Annotated[str, typer.Option("--user", help="User of the inventory: ops (with sudo) or root.")] = USERS[0],
    docker: Annotated[bool, typer.Option("--docker/--no-docker", help="Hosts with or without Docker.")] = True,
    engine: Annotated[
        JobEngine, typer.Option("--engine", help="slurm: also groups for a Slurm cluster, which provision makes.")
    ] = JobEngine.SSH,
    as_json: options.Json = False,
) -> None:
    """Start hosts as containers and write their inventory. Hosts that already run stay as they are.

    What this machine lacks (an engine, memory, disk space, a network, programs) is said before anything is created.
    """
    with error_boundary():
        wanted = LabSpec(name, hosts, parse_slots(slots), distro, fabrics, docker, user, tuple(subnet or ()), engine)
        spec = make_spec(wanted)
        try:
            with progress(f"lab {name}") as listener:
                result = lab_up(spec, progress=listener)
        except KeyboardInterrupt:
            removal = ddp_play("lab", "down", "--name", name)
            console.note(f"run the same command again to continue; {removal} removes what was created")
            raise
        if as_json:
            console.as_json({**result.as_dict(), "next": [row.to_json() for row in next_commands(result)]})
        else:
            _print_up_result(result)


@app.command()
def status(
    name: Name = DEFAULT_NAME,
    as_json: options.Json = False,
) -> None:
    """Show the lab's hosts, their addresses and whether they answer."""
    with error_boundary():
        found = read_status(name)
        if as_json:
            console.as_json(found.as_dict())
        else:
            _print_status(found)


@app.command(context_settings={"ignore_unknown_options": True})
def ssh(
    host: Annotated[str, typer.Argument(help="Host name (h2) or number (2).")],
    command: Annotated[list[str] | None, typer.Argument(help="Command to run there.")] = None,
    name: Name = DEFAULT_NAME,
    user: Annotated[str, typer.Option("--user", help="Log in as ops or root; the lab's own user by default.")] = "",
) -> None:
    """Log in to a host of the lab, or run a command there."""
    with error_boundary():
        state = lab_state(name)
        plan = state.load_plan()
        if plan is None:
            raise UsageError(f"there is no lab named {name}", hint=f"ddp-play lab up --name {name}")
        target = find_host(plan, host)
        argv = ["ssh", "-i", str(state.key), *ssh_options(state), "-o", "LogLevel=ERROR"]
        argv += ["-l", user or plan.spec.user, target.addresses[0], *(command or [])]
        try:
            os.execvp("ssh", argv)  # noqa: S606 - ssh replaces this process: terminal and exit code are ssh's
        except FileNotFoundError:
            raise HostNotReady("ssh is not installed", hint="apt-get install openssh-client") from None


@app.command()
def down(
    name: Name = DEFAULT_NAME,
    force: Annotated[
        bool, typer.Option("--force", help="Also if the lab belongs to another user or DDP_PLAY_HOME.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove the lab: containers, volumes, networks, keys and inventory."""
    with error_boundary():
        with progress(f"lab {name}") as listener:
            removed = lab_down(name, force=force, progress=listener)
        if as_json:
            console.as_json({"name": name, **asdict(removed)})
        elif removed.hosts or removed.volumes or removed.networks:
            numbers = (removed.hosts, "host"), (removed.volumes, "volume"), (removed.networks, "network")
            counts = ", ".join(counted(number, what) for number, what in numbers)
            console.line(f"removed lab {name}: {counts}")
        else:
            console.line(f"there was no lab named {name}")


@app.command()
def image(
    distro: Annotated[Distro, typer.Option("--distro", help="Debian release.")] = Distro.BOOKWORM,
    docker: Annotated[bool, typer.Option("--docker/--no-docker", help="With or without Docker.")] = True,
    base: Annotated[
        str, typer.Option("--base", help="Debian base image to pull, for example from your registry.")
    ] = "",
) -> None:
    """Build the image of lab hosts if it is missing, and print its tag."""
    with error_boundary():
        with progress("base image") as listener:
            tag = ensure_host_image(connect(), distro, engine=docker, progress=listener, base=base)
        console.line(tag)


def _print_up_result(result: UpResult) -> None:
    if result.limits_raised:
        settings = " ".join(f"{limit.name}={limit.target}" for limit in result.limits_raised)
        console.note(f"raised kernel limits for this many hosts: {settings}")
    spec = result.plan.spec
    is_new = result.created or result.started
    counts = f"{counted(spec.num_hosts, 'host')}, {counted(sum(spec.slots), 'slot')}"
    console.line(f"lab {spec.name} {'is up' if is_new else 'was up already'}: {counts}")
    console.line(f"inventory: {result.state.inventory}")
    show_commands("next:", next_commands(result))


def next_commands(result: UpResult) -> tuple[NextCommand, ...]:
    """Commands after `lab up`: a first job or an engine for hosts that have none, and a Slurm cluster where wanted."""
    spec, inventory = result.plan.spec, str(result.state.inventory)
    is_slurm = spec.job_engine == JobEngine.SLURM
    return (
        *(_first_job(inventory) if spec.engine else () if is_slurm else (_engine_installation(inventory),)),
        *(_cluster(spec, inventory) if is_slurm else ()),
        NextCommand(ddp_play("lab", "ssh", "--name", spec.name, "h1"), "log in to a host"),
        NextCommand(ddp_play("lab", "down", "--name", spec.name), "remove the lab"),
    )


def _first_job(inventory: str) -> tuple[NextCommand, ...]:
    load = ddp_play("image", "load", "-i", inventory, "--image", CPU_TAG, "--build", Kind.CPU)
    run = ddp_play("run", "-i", inventory, "-e", f"ddp_job_image={CPU_TAG}")
    return (
        NextCommand(load, "build an image with torch and copy it to the hosts (some minutes)"),
        NextCommand(run, "train the example on the hosts"),
    )


def _engine_installation(inventory: str) -> NextCommand:
    words = ("provision", "-i", inventory, "-e", "docker_engine_source=distribution")
    return NextCommand(ddp_play(*words), "configure the hosts, with an engine from their distribution")


def _cluster(spec: LabSpec, inventory: str) -> tuple[NextCommand, ...]:
    """A cluster, which needs no Docker, and its first job."""
    job = f"srun --nodes={spec.num_hosts} hostname"
    return (
        NextCommand(ddp_play("provision", "-i", inventory, "--tags", "slurm"), "make a Slurm cluster of the hosts"),
        NextCommand(ddp_play("lab", "ssh", "--name", spec.name, "h1", job), "run a first job on all of them"),
    )


def _print_status(found: LabStatus) -> None:
    if found.state == "absent":
        console.line(f"there is no lab named {found.name}")
        return
    table = Table("host", "addresses", "slots", "state", "ssh", box=None)
    for host in found.hosts:
        answer = "answers" if host.ssh else "silent"
        table.add_row(*map(escape, (host.name, " ".join(host.addresses), str(host.slots), host.state, answer)))
    console.wide_table(table)
    console.line(f"lab {found.name} is {found.state}; inventory: {found.inventory}")
