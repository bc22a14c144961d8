"""`ddp-play provision`, `verify` and `deprovision`: configuration of hosts for ranks, its check, its removal."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookRequest
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.provisioning_view import phase_view, show_batches, show_plan, show_report
from ddp_play.errors import CheckFailed, HostNotReady, UsageError
from ddp_play.provisioning.host_role_table import CellStatus
from ddp_play.provisioning.playbook_run import PlaybookPlan, Report, plan_playbook, run_playbook
from ddp_play.provisioning.role_specs import DISRUPT
from ddp_play.provisioning.rolling import Rolling, run_batches

Tags = Annotated[list[str] | None, typer.Option("-t", "--tags", help="Only these roles: docker_engine,nfs_client.")]

Serial = Annotated[
    int, typer.Option("--serial", min=0, metavar="N", help="N hosts at a time; stop at the first failed batch.")
]

Check = Annotated[bool, typer.Option("--check", help="Only list what would change.")]

Disrupt = Annotated[bool, typer.Option("--disrupt", help="Also change busy hosts: containers and ranks there may end.")]


@options.with_ansible
def provision(
    *,
    inventory: options.Inventory = None,
    tags: Tags = None,
    check: Check = False,
    serial: Serial = 0,
    canary: Annotated[bool, typer.Option("--canary", help="The first host alone, then the others.")] = False,
    disrupt: Disrupt = False,
    yes: Annotated[bool, typer.Option("--yes", help="On a terminal: no check and no question first.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Configure hosts so that they can run ranks. A second run changes nothing.

    On a terminal it first lists what would be removed, restarted, changed and added, as --check does, and asks.

    The output is the plan, then a line for every host and role, then a table with reasons and remedies.

    If a role fails on a host, the other hosts continue. Exit codes: 0 all done, 1 a role failed,

    64 the inventory does not fit the roles (nothing was touched), 69 hosts could not be reached.

    --check ends with 0 also if changes are pending. Changes that wait because a host is busy are listed.

    [bold]Examples[/]

      ddp-play provision -i inventory --check

      ddp-play provision -i inventory --canary --serial 4

      ddp-play provision -i inventory --limit gpu03 --disrupt
    """
    with error_boundary():
        request = ansible.request(_playbook("provision"), inventory)
        passwords = ansible.passwords()
        planned = _plan(_disrupting(request) if disrupt else request, "provision", passwords, tags)
        if check:
            _run_and_report(_checking(planned), passwords, as_json=as_json)
        elif yes or as_json or not console.asks() or _agreed(planned, passwords):
            _provision(planned, passwords, Rolling(serial, canary), as_json=as_json)


@options.with_ansible
def verify(
    *,
    inventory: options.Inventory = None,
    tags: Tags = None,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Check that every host is in the state that `provision` defines; changes nothing.

    [bold]Examples[/]

      ddp-play verify -i inventory

      ddp-play verify -i inventory --limit gpu03 --tags docker_engine
    """
    with error_boundary():
        request = ansible.request(_playbook("verify"), inventory)
        passwords = ansible.passwords()
        _run_and_report(_plan(request, "verify", passwords, tags), passwords, as_json=as_json)


@options.with_ansible
def deprovision(
    *,
    inventory: options.Inventory = None,
    yes: Annotated[bool, typer.Option("--yes", help="Undo; without it only the plan is shown.")] = False,
    tags: Tags = None,
    disrupt: Disrupt = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Remove ddp-play's files, packages, mounts and holds from the hosts of --limit, and list what remains.

    [bold]Examples[/]

      ddp-play deprovision -i inventory --limit gpu03

      ddp-play deprovision -i inventory --limit gpu03 --yes
    """
    with error_boundary():
        if not ansible.limit:
            raise UsageError("no hosts: --limit was not given", hint="give --limit HOST, or --limit all for every host")
        request = ansible.request(_playbook("deprovision"), inventory)
        request = _disrupting(request) if disrupt else request
        passwords = ansible.passwords()
        planned = _plan(request, "deprovision", passwords, tags)
        if not yes:
            show_plan(planned)
            names = ", ".join(planned.hosts)
            raise UsageError(
                f"nothing was changed: this would undo all roles above on {names}", hint="repeat it with --yes"
            )
        _run_and_report(planned, passwords, as_json=as_json)


def _playbook(name: str) -> str:
    """Path of a playbook. A named playbook without -i takes the inventory of ansible.cfg, not the demo's."""
    return str(collection_root() / "playbooks" / f"{name}.yml")


def _disrupting(request: PlaybookRequest) -> PlaybookRequest:
    """The request with the variable that lets roles change busy hosts. The user's own --extra-vars come after it."""
    return dataclasses.replace(request, options=("--extra-vars", f'{{"{DISRUPT}": true}}', *request.options))


def _plan(request: PlaybookRequest, name: str, passwords: Passwords, tags: list[str] | None) -> PlaybookPlan:
    wanted = tuple(role for value in tags or () for role in value.split(",") if role)
    return plan_playbook(dataclasses.replace(request, tags=wanted), name, passwords)


def _run_and_report(planned: PlaybookPlan, passwords: Passwords, *, as_json: bool) -> None:
    show_plan(planned)
    with phase_view() as view:
        report = run_playbook(planned, passwords, AnsibleRunner(), view)
    _print_report(planned, report, as_json=as_json)


def _checking(planned: PlaybookPlan) -> PlaybookPlan:
    options = (*planned.request.options, "--check")
    return dataclasses.replace(planned, request=dataclasses.replace(planned.request, options=options))


def _agreed(planned: PlaybookPlan, passwords: Passwords) -> bool:
    """List what would change, and ask. A role that fails in the check may succeed once its packages are there.

    Raises the error of a check that reached no host. If the answer is no, typer.Exit with the code of a failed check.
    """
    console.note("checking first, without changes (--yes skips the check and the question)")
    show_plan(planned)
    with phase_view() as view:
        report = run_playbook(_checking(planned), passwords, AnsibleRunner(), view)
    show_report(report)
    error = report.error()
    reached = any(cell.status not in (CellStatus.UNREACHABLE, CellStatus.NOT_RUN) for cell in report.cells)
    if error is not None and not (isinstance(error, CheckFailed) or (isinstance(error, HostNotReady) and reached)):
        raise error
    if error is not None:
        console.error(f"the check failed: {error.message}", hint=error.hint)
        console.note("a task may fail in the check only, because what it needs is installed by an earlier one")
    despite = " although the check failed" if error else ""
    if typer.confirm(f"Provision {len(planned.hosts)} hosts now{despite}?", err=True):
        return True
    console.note("nothing was changed")
    if error is not None:
        raise typer.Exit(error.exit_code)
    return False


def _provision(planned: PlaybookPlan, passwords: Passwords, rolling: Rolling, *, as_json: bool) -> None:
    if not rolling.wanted:
        _run_and_report(planned, passwords, as_json=as_json)
        return
    batches = rolling.batches(planned)
    show_batches(batches)

    def run(batch: PlaybookPlan) -> Report:
        show_plan(batch)
        with phase_view() as view:
            report = run_playbook(batch, passwords, AnsibleRunner(), view)
        if report.cells and not as_json:
            show_report(report)
        return report

    roll = run_batches(planned, rolling, passwords, run)
    if as_json:
        console.as_json({**roll.to_json(), "phases": [phase.to_json() for phase in planned.phases]})
    error = roll.error()
    if error is not None:
        raise error


def _print_report(planned: PlaybookPlan, report: Report, *, as_json: bool) -> None:
    if as_json:
        console.as_json({**report.to_json(), "phases": [phase.to_json() for phase in planned.phases]})
    elif report.cells:
        show_report(report)
    error = report.error()
    if error is not None:
        raise error
