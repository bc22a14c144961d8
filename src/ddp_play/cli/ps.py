"""`ddp-play ps`: list of the runs of this controller and, with an inventory, of the runs on its hosts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from ddp_play.bundle.bundle_size import LIST_ENTRIES, Budget, size_of
from ddp_play.bundle.run_lookup import NewestRuns, Run, all_runs, newest_runs
from ddp_play.bundle.summary import duration
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.unasked_hosts import refuse_unasked
from ddp_play.errors import UsageError

COLUMNS = ("run", "status", "ranks", "hosts", "age", "took", "size", "why")
NEWEST = 10


@options.with_ansible
def ps(
    *,
    inventory: options.Inventory = None,
    everything: Annotated[bool, typer.Option("-a", "--all", help="All runs, also those that never started.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """List the newest ten runs that started. With -i also those on the hosts, which finds a run whose controller died.

    The exit code is 69 if a host could not be asked.

    [bold]Examples[/]

      ddp-play ps

      ddp-play ps -i inventory --json
    """
    with error_boundary():
        if not inventory and ansible != options.Ansible():
            raise UsageError("Ansible's options are for hosts, and no inventory was given", hint="give -i INVENTORY")
        newest = NewestRuns(tuple(all_runs())) if everything else newest_runs(NEWEST)
        newest = replace(newest, runs=tuple(map(_current, newest.runs)))
        on_hosts, problems = _ask_hosts(ansible, inventory) if inventory else ([], {})
        if as_json:
            document = {"runs": _rows(newest.runs), "on_hosts": on_hosts, "problems": problems}
            console.as_json(document, indent=None if everything else 2)  # there may be ten thousand
        else:
            _show(newest)
            if inventory:
                _show_hosts(on_hosts)
        refuse_unasked(problems)


def _ask_hosts(ansible: options.Ansible, inventory: list[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Runs on the hosts, and why hosts did not answer."""
    from ddp_play.ansible.runner import AnsibleRunner  # noqa: PLC0415 - without hosts a third of the imports
    from ddp_play.run.garbage_collection import find_leftovers  # noqa: PLC0415

    found = find_leftovers(ansible.request_for_hosts(inventory), ansible.passwords(), AnsibleRunner())
    return found.runs, found.problems


def _rows(runs: tuple[Run, ...]) -> list[dict[str, Any]]:
    """Sizes that are not recorded are measured, within a bound for all of them."""
    budget = Budget(LIST_ENTRIES)
    return [_row(run, budget) for run in runs]


def _row(run: Run, budget: Budget) -> dict[str, Any]:
    document = {} if run.unreadable else run.document
    return {
        "run": run.paths.run_id,
        "status": run.status_text if run.unreadable else str(run.status),
        "attended": run.attended,
        "job": document.get("job", ""),
        "world_size": document.get("world_size"),
        "attempt": document.get("attempt", 1),
        "queue": document.get("queue"),
        "hosts": document.get("hosts", []),
        "created": document.get("created"),
        "ended": document.get("ended"),
        "exit_code": document.get("exit_code"),
        "exit_class": document.get("exit_class"),
        "message": run.unreadable or str((document.get("verdict") or {}).get("message", "")) or _waits_for(run),
        "bundle": str(run.paths.root),
        "bundle_bytes": size_of(run.paths.root, document, budget),
    }


def _current(run: Run) -> Run:
    """The run, after its engine was asked if it has an allocation and has not ended."""
    if not run.allocation or run.status.final:
        return run
    from ddp_play.run.engine_runs import load  # noqa: PLC0415 - most lists have no such run

    return load(run.paths)


def _waits_for(run: Run) -> str:
    """Why a run waits for an engine's hosts; empty if it does not."""
    return str(run.allocation.get("text", "")) if run.allocation.get("phase") == "pending" else ""


def _show(newest: NewestRuns) -> None:
    if newest.runs:
        _show_runs(newest.runs)
    elif not newest.never_started:
        console.line("no runs yet; `ddp-play run` starts the demo")
    others = (
        f"{newest.never_started} that never started" if newest.never_started else "",
        f"{newest.older} older" if newest.older else "",
    )
    if any(others):
        console.note(f"not listed: {', '.join(filter(None, others))}: ddp-play ps --all")


def _show_runs(runs: tuple[Run, ...]) -> None:
    rows = [_cells(run, row) for run, row in zip(runs, _rows(runs), strict=True)]
    styles = [{"succeeded": "green", "failed": "red"}.get(run.status, "yellow") for run in runs]
    console.long_table(COLUMNS, rows, styled=COLUMNS.index("status"), styles=styles)


def _cells(run: Run, row: dict[str, Any]) -> tuple[str, ...]:
    now = time.time()
    began = row["created"] or now
    return (
        row["run"],
        run.status_text + (f" (attempt {row['attempt']})" if row["attempt"] > 1 else ""),
        str(row["world_size"] or "-"),
        str(len(row["hosts"]) or "-"),
        "-" if run.unreadable else duration(now - began),
        duration(row["ended"] - began) if row["ended"] else "-",
        "-" if row["bundle_bytes"] is None else decimal(row["bundle_bytes"]),
        row["message"].splitlines()[0] if row["message"] else "",
    )


def _show_hosts(rows: list[dict[str, Any]]) -> None:
    console.out.print("\n[bold]on the hosts[/]" + ("" if rows else " nothing"))
    for row in rows:
        ranks = ", ".join(f"{rank} {what['state']}" for rank, what in sorted(row["ranks"].items()))
        if row.get("unknown"):
            console.line(f"  {row['inventory_host']}: {row['run']} attempt {row['attempt']}: {row['unknown']}")
            continue
        guard = "guard alive" if row["guard_alive"] else "no guard"
        guard = f"on {row['elsewhere']}, which shares this directory" if row.get("elsewhere") else guard
        run_text = f"{row['run']} attempt {row['attempt']} of {row['owner'] or 'unknown'}"
        console.line(f"  {row['inventory_host']}: {run_text} {row['phase']}, {guard}; {ranks}")
