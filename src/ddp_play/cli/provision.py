"""`ddp-play provision`, `verify` and `deprovision`: configuration of hosts for ranks, its check, its removal."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options, playbook_runs
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.provisioning_view import show_plan, show_report
from ddp_play.errors import CheckFailed, HostNotReady, UsageError
from ddp_play.provisioning.host_role_table import CellStatus
from ddp_play.provisioning.playbook_run import PlaybookPlan
from ddp_play.provisioning.role_specs import DISRUPT
from ddp_play.provisioning.rolling import Rolling

Tags = Annotated[list[str] | None, typer.Option("-t", "--tags", help="Only these roles: docker_engine,nfs_client.")]

Serial = Annotated[
    int, typer.Option("--serial", min=0, metavar="N", help="N hosts at a time; stop at the first failed batch.")
]

Check = Annotated[bool, typer.Option("--check", help="Only list what would change.")]

Disrupt = Annotated[bool, typer.Option("--disrupt", help="Also change busy hosts: containers and ranks there may end.")]

USERS_STATE = (
    "not touched: what belongs to users whose jobs ran there: ~/.local/state/ddp-play/host with the program, facts and"
    " the record of usage (docs/onboarding.md, Taking a host out)"
)


@options.with_ansible
def provision(
    *,
    inventory: options.Inventory = None,
    tags: Tags = None,
    check: Check = False,
    serial: Serial = 0,
    canary: Annotated[bool, typer.Option("--canary", help="The first host alone, then the others.")] = False,
    disrupt: Disrupt = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not check new hosts at the end.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="On a terminal: no check and no question first.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Configure hosts so that they can run ranks. A second run changes nothing.

    On a terminal it first lists what would be removed, restarted, changed and added, as --check does, and asks.

    The output is the plan, then a line for every host and role, then a table with reasons and remedies.
    New hosts are then checked. One that fails gets no runs until it is mended and released (check --release).

    If a role fails on a host, the other hosts continue. Exit codes: 0 all done, 1 a role or a new host failed,

    64 the inventory does not fit the roles (nothing was touched), 69 hosts could not be reached.
    --check ends with 0 also if changes are pending. Changes that wait because a host is busy are listed.

    [bold]Examples[/]

      ddp-play provision -i inventory --check

      ddp-play provision -i inventory --canary --serial 4
    """
    with error_boundary():
        request = ansible.request(playbook_runs.playbook("provision"), inventory)
        passwords = ansible.passwords()
        planned = playbook_runs.plan(_disrupting(request, disrupt), "provision", passwords, tags)
        if check:
            playbook_runs.run_and_report(playbook_runs.checking(planned), passwords, as_json=as_json)
        elif yes or as_json or not console.asks() or _agreed(planned, passwords, "Provision"):
            then = playbook_runs.no_more if no_check or tags else partial(_accept, planned, passwords)
            playbook_runs.run_in_batches(planned, passwords, Rolling(serial, canary), as_json=as_json, then=then)


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
        request = ansible.request(playbook_runs.playbook("verify"), inventory)
        passwords = ansible.passwords()
        playbook_runs.run_and_report(playbook_runs.plan(request, "verify", passwords, tags), passwords, as_json=as_json)


@options.with_ansible
def deprovision(
    *,
    inventory: options.Inventory = None,
    check: Annotated[bool, typer.Option("--check", help="Only list what would be removed and restored.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="No list and no question first.")] = False,
    tags: Tags = None,
    disrupt: Disrupt = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Remove ddp-play's files, packages, mounts and holds from the hosts of --limit, and list what remains.

    On a terminal it first lists what would be removed, restarted and changed, as --check does, and asks.

    Elsewhere it changes nothing without --yes.

    [bold]Examples[/]

      ddp-play deprovision -i inventory --limit gpu03 --check

      ddp-play deprovision -i inventory --limit gpu03 --yes
    """
    with error_boundary():
        if not ansible.limit:
            raise UsageError("no hosts: --limit was not given", hint="give --limit HOST, or --limit all for every host")
        request = ansible.request(playbook_runs.playbook("deprovision"), inventory)
        request = _disrupting(request, disrupt)
        passwords = ansible.passwords()
        planned = playbook_runs.plan(request, "deprovision", passwords, tags)
        if check:
            playbook_runs.run_and_report(playbook_runs.checking(planned), passwords, as_json=as_json)
        elif yes or _agreed_to_undo(planned, passwords, asks=console.asks() and not as_json):
            playbook_runs.run_and_report(planned, passwords, as_json=as_json)
            if not as_json:
                console.note(USERS_STATE)


def _agreed_to_undo(planned: PlaybookPlan, passwords: Passwords, *, asks: bool) -> bool:
    """List what would go, and ask. Raises UsageError if nobody can be asked."""
    if asks:
        return _agreed(planned, passwords, "Deprovision")
    show_plan(planned)
    raise UsageError(
        f"nothing was changed: this would undo the roles above on {', '.join(planned.hosts)}",
        hint="--check lists what would be removed and restored; --yes does it",
    )


def _accept(planned: PlaybookPlan, passwords: Passwords, new: tuple[str, ...]) -> playbook_runs.Following | None:
    """Check the new hosts."""
    from ddp_play.cli.acceptance import Acceptance  # noqa: PLC0415 - its imports take 0.3 s

    return Acceptance(planned, passwords)(new)


def _disrupting(request: PlaybookRequest, wanted: bool) -> PlaybookRequest:
    return playbook_runs.with_options(request, playbook_runs.as_options({DISRUPT: True} if wanted else {}))


def _agreed(planned: PlaybookPlan, passwords: Passwords, action: str) -> bool:
    """List what would change, and ask. A role that fails in the check may succeed once its packages are there.

    Raises the error of a check that reached no host. If the answer is no, typer.Exit with the code of a failed check.
    """
    console.note("checking first, without changes (--yes skips the check and the question)")
    report = playbook_runs.run(playbook_runs.checking(planned), passwords)
    show_report(report)
    error = report.error()
    reached = any(cell.status not in (CellStatus.UNREACHABLE, CellStatus.NOT_RUN) for cell in report.cells)
    if error is not None and not (isinstance(error, CheckFailed) or (isinstance(error, HostNotReady) and reached)):
        raise error
    if error is not None:
        console.error(f"the check failed: {error.message}", hint=error.hint)
        console.note("a task may fail in the check only, because what it needs is installed by an earlier one")
    despite = " although the check failed" if error else ""
    if typer.confirm(f"{action} {counted(len(planned.hosts), 'host')} now{despite}?", err=True):
        return True
    console.note("nothing was changed")
    if error is not None:
        raise typer.Exit(error.exit_code)
    return False
