"""`ddp-play session`: Ansible and an inventory kept in memory, so that runs start sooner."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Annotated

import typer

from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import InternalError, UsageError
from ddp_play.planning.job_values import parse_seconds
from ddp_play.run.session_children import WARM_UP
from ddp_play.run.session_place import SessionPlace
from ddp_play.run.session_request import order
from ddp_play.run.session_server import Session

START_S = 60.0


def session(
    inventory: options.Inventory = None,
    idle: Annotated[str, typer.Option("--idle", help="End after so long without a run: 90s, 30m, 8h.")] = "30m",
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Go on in the background.")] = False,
    end: Annotated[bool, typer.Option("--end", help="End the session of this inventory; its runs go on.")] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read the inventory again, where a script or a plugin makes it.")
    ] = False,
) -> None:
    """Keep Ansible and an inventory in memory, so that runs start sooner.

    While it runs, `run -i` with the same inventory goes through it, from any terminal. Everything works the same
    without it; it can end at any time, and runs go on.

    [bold]Examples[/]

      ddp-play session -i inventory                 until Ctrl-C, or half an hour without a run

      ddp-play session -i inventory -d; ddp-play run train.yml -i inventory

      ddp-play session -i inventory --end
    """
    with error_boundary():
        request = options.Ansible().request(str(WARM_UP), inventory)
        place = SessionPlace.of(request.inventory, request.cwd)
        if end or refresh:
            if order(place, "end" if end else "refresh") is None:
                raise UsageError("this inventory has no session", hint="ddp-play session -i INVENTORY starts one")
            console.note("ended" if end else "the inventory is read again")
            return
        idle_s = _seconds(idle)
        if detach:
            _start_detached(place, inventory or [], idle)
            return
        console.note("ddp-play run with this inventory goes through this session; Ctrl-C ends it, and runs go on")
        Session(request, place, idle_s=idle_s, say=console.note).serve()


def _seconds(idle: str) -> float:
    try:
        return float(parse_seconds(idle))
    except ValueError as error:
        raise UsageError(f"--idle: {error}") from None


def _start_detached(place: SessionPlace, inventory: list[str], idle: str) -> None:
    """Start the same command in the background. Returns when it is ready."""
    if found := order(place, "status"):
        raise UsageError(
            f"this inventory has a session already (pid {found['pid']})",
            hint="ddp-play session -i INVENTORY --end ends it",
        )
    words = [sys.executable, "-m", "ddp_play", "session", "--idle", idle]
    words += [word for source in inventory for word in ("-i", source)]
    place.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with place.log.open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if (found := order(place, "status")) and (found["ready"] or found["settled"]):
            process.returncode = 0  # no warning from Popen: the session is meant to outlive this process
            ready = "" if found["ready"] else f"; Ansible is not kept ready, see {place.log}"
            console.line(f"session {found['pid']} in the background, until {idle} without a run{ready}")
            return
        time.sleep(0.05)
    raise InternalError("the session did not start", hint=f"see {place.log}")
