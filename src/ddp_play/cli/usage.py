"""`ddp-play usage`: what runs have used of the hosts' slots, how busy their GPUs were, and how much was idle."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.summary import counted, duration
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.unasked_hosts import refuse_unasked
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import split_run_key
from ddp_play.planning.job_values import parse_seconds
from ddp_play.run.host_usage import Group, Usage, find_usage

DAY_S = 86400.0


@options.with_ansible
def usage(
    *,
    inventory: options.Inventory = None,
    since: Annotated[str, typer.Option("--since", help="Length of the time that ends now: 12h, 30d.")] = "30d",
    by: Annotated[Literal["user", "host", "run"], typer.Option("--by", help="What the rows are about.")] = "user",
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Show the slots that runs have used, how busy their GPUs were, and what was idle.

    Each host records the runs of the user that ddp-play connects as (with -b: of root), from all
    controllers. The exit code is 69 if a host could not be asked.

    [bold]Examples[/]

      ddp-play usage -i inventory

      ddp-play usage -i inventory --since 7d --by host

      ddp-play usage -i inventory --by run --json
    """
    with error_boundary():
        since_s = _seconds(since)
        found = find_usage(ansible.request_for_hosts(inventory), ansible.passwords(), AnsibleRunner(), since_s)
        if as_json:
            console.as_json(_document(found, by))
        else:
            _show(found, by)
        refuse_unasked(found.problems)


def _seconds(text: str) -> float:
    try:
        found = float(parse_seconds(text))
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    if found <= 0:
        raise UsageError("--since is 0", hint="give a length of time, such as 30d")
    return found


def _document(found: Usage, by: str) -> dict[str, object]:
    return {
        "since_s": found.since_s,
        "by": by,
        "groups": [asdict(group) for group in found.groups(by)],
        "slots": dict(found.slots),
        "capacity_slot_hours": found.capacity_hours,
        "used_slot_hours": found.used_hours,
        "idle_share": found.idle_share,
        "gpu_busy": found.gpu_busy,
        "oldest_record_s": found.oldest_s,
        "problems": dict(found.problems),
    }


def _show(found: Usage, by: str) -> None:
    if not found.slots:
        return
    columns = (by, "runs", "slot hours", "share", *(["GPU busy"] if found.has_gpus else []))
    idle = found.capacity_hours * found.idle_share
    rows = [*map(_row, found.groups(by)), ("idle", "", f"{idle:.2f}", f"{found.idle_share:.0%}", "")]
    styles = [*[""] * (len(rows) - 1), "dim"]
    console.long_table(columns, [row[: len(columns)] for row in rows], styled=0, styles=styles)
    begun = f"the first record is {_length(found.oldest_s)} old" if found.oldest_s is not None else "no records yet"
    busy = f"; the GPUs of runs were {found.gpu_busy:.0%} busy" if found.gpu_busy is not None else ""
    console.note(f"{_slots(found)} in {_length(found.since_s)}; {begun}{busy}")


def _row(group: Group) -> tuple[str, ...]:
    name = " ".join(split_run_key(group.name)[0].split())  # a host tells it: a line break would end the row
    busy = "" if group.gpu_busy is None else f"{group.gpu_busy:.0%}"
    return name, str(group.runs), f"{group.slot_hours:.2f}", f"{group.share:.0%}", busy


def _length(seconds: float) -> str:
    return f"{seconds / DAY_S:.0f} days" if seconds >= 2 * DAY_S else duration(seconds)


def _slots(found: Usage) -> str:
    return f"{counted(sum(found.slots.values()), 'slot')} of {counted(len(found.slots), 'host')}"
