"""`ddp-play reboot`: reboot hosts in batches, each host only when nothing runs there any more."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddp_play.bundle.controller_user import user_name
from ddp_play.cli import console, options, playbook_runs
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.provisioning_view import show_plan
from ddp_play.errors import UsageError
from ddp_play.planning.job_values import parse_seconds
from ddp_play.provisioning.role_specs import DISRUPT, REBOOT_SERIAL
from ddp_play.provisioning.rolling import Rolling

if TYPE_CHECKING:
    from ddp_play.provisioning.playbook_run import PlaybookPlan


@options.with_ansible
def reboot(
    *,
    inventory: options.Inventory = None,
    needed: Annotated[bool, typer.Option("--needed", help="Only hosts whose system or driver needs it.")] = False,
    serial: Annotated[int, typer.Option("--serial", min=1, metavar="N", help="N hosts at a time.")] = 1,
    wait: Annotated[str, typer.Option("--wait", help="Wait for a busy host: 90s, 10m, 2h.")] = "",
    disrupt: Annotated[bool, typer.Option("--disrupt", help="Reboot busy hosts too: what runs there is lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Reboot without a question.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only list which hosts would be rebooted.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Only let hosts take new runs again.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Reboot hosts one after the other. The next host follows when the one before works again.

    A host that is due takes no new runs. It is rebooted when nobody works there any more: no run, container, GPU
    process, Slurm step, package manager or NFS client. It takes runs again when its units and mounts are active.

    It ends at the first host that stays busy, does not come back, or lacks units or mounts afterwards.

    Exit codes: 0 all done, 1 a host failed, 69 a host could not be reached.

    [bold]Examples[/]

      ddp-play reboot -i inventory --needed --check

      ddp-play reboot -i inventory --limit gpu03 --wait 2h --yes
    """
    with error_boundary():
        own, verb = _own_options(0 if check or open_ else serial, wait, needed=needed, disrupt=disrupt, only_open=open_)
        request = ansible.request(playbook_runs.playbook("reboot"), inventory)
        passwords = ansible.passwords()
        planned = playbook_runs.plan(playbook_runs.with_options(request, own), "reboot", passwords)
        if check or open_:
            planned = playbook_runs.checking(planned) if check else planned
            playbook_runs.run_and_report(planned, passwords, as_json=as_json)
        elif yes or _agreed(planned, needed=needed, asks=console.asks() and not as_json):
            rolling = Rolling(serial, verb=verb, own=own, providers_first=False)
            playbook_runs.run_in_batches(planned, passwords, rolling, as_json=as_json)


def _own_options(
    serial: int, wait: str, *, needed: bool, disrupt: bool, only_open: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Options of ansible-playbook for those of this verb, and the words of the verb that they stand for.

    `serial`: hosts at the same time within one run of the playbook; 0: all.
    """
    reason = f"reboot by {user_name()} from {socket.gethostname()}"
    variables: dict[str, Any] = {"host_reboot_reason": reason, REBOOT_SERIAL: serial}
    words = ["reboot", "--yes"]
    if needed:
        variables["host_reboot_when"] = "required"
        words.append("--needed")
    if wait:
        try:
            variables["host_reboot_wait_s"] = int(parse_seconds(wait))
        except ValueError as error:
            raise UsageError(f"--wait: {error}") from None
        words += ["--wait", wait]
    if only_open:
        variables["host_reboot_open"] = True
    if disrupt:
        variables[DISRUPT] = True
        words.append("--disrupt")
    return playbook_runs.as_options(variables), tuple(words)


def _agreed(planned: PlaybookPlan, *, needed: bool, asks: bool) -> bool:
    """Ask if somebody can answer. Else UsageError with what to add."""
    show_plan(planned)
    names = ", ".join(planned.hosts)
    if not asks:
        which = f"those of {names} that need it" if needed else names
        raise UsageError(f"nothing was changed: this would reboot {which}", hint="repeat it with --yes")
    number = f"{len(planned.hosts)} host{'' if len(planned.hosts) == 1 else 's'}"
    if typer.confirm(f"Reboot {f'those of {number} that need it' if needed else number} now?", err=True):
        return True
    console.note("nothing was changed")
    return False
