"""`ddp-play session`: Ansible and an inventory kept in memory, so that runs start sooner."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddp_play.bundle.paths import make_directory
from ddp_play.bundle.run_locks import is_locked
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import Busy, InternalError, UsageError
from ddp_play.planning.job_values import parse_seconds
from ddp_play.run.session_children import WARM_UP
from ddp_play.run.session_place import SessionPlace
from ddp_play.run.session_request import order
from ddp_play.run.session_server import Session

if TYPE_CHECKING:
    from ddp_play.ansible.runner import PlaybookRequest

START_S = 60.0
END_S = 10.0  # it has answered that it ends
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Read the inventory again, where a script or a plugin makes it.")
]


def session(
    inventory: options.Inventory = None,
    idle: Annotated[str, typer.Option("--idle", help="End after so long without a run: 90s, 30m, 8h.")] = "30m",
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Go on in the background.")] = False,
    end: Annotated[bool, typer.Option("--end", help="End the session of this inventory; its runs go on.")] = False,
    refresh: Refresh = False,
    as_json: options.Json = False,
) -> None:
    """Keep Ansible and an inventory in memory, so that runs start sooner.

    While it runs, `run -i` with the same inventory goes through it, from any terminal. Everything works the same
    without it; it can end at any time, and runs go on.

    --json alone starts none: it tells the state of this inventory's session.

    [bold]Examples[/]

      ddp-play session -i inventory                 until Ctrl-C, or half an hour without a run

      ddp-play session -i inventory -d; ddp-play run train.yml -i inventory

      ddp-play session -i inventory --end

      ddp-play session -i inventory --json | jq .state
    """
    with error_boundary():
        if end + refresh + detach > 1:
            raise UsageError("--end, --refresh and --detach exclude each other", hint="give one of them")
        request = options.Ansible().request(str(WARM_UP), inventory)
        place = SessionPlace.of(request.inventory, request.cwd)
        if end or refresh:
            _order(place, "end" if end else "refresh")
        elif detach:
            _start_detached(place, inventory or [], idle)
        if as_json:
            console.as_json(state_of(place, request.inventory))
        if end or refresh or detach or as_json:
            return
        _serve(request, place, idle)


def state_of(place: SessionPlace, inventory: tuple[str, ...]) -> dict[str, Any]:
    """The session of an inventory for --json. What a session does not say, because it hangs or is none, is null.

    The pid of one that hangs is in its lock.
    """
    answer = order(place, "status")
    state = "silent" if is_locked(place.lock) else "none"
    if answer is not None:
        state = "ready" if answer.get("ready") else "cold" if answer.get("settled") else "starting"
    said = answer or {}
    return {
        "inventory": list(inventory),
        "state": state,
        "pid": said.get("pid") or place.holder or None,
        "runs": said.get("runs", []),
        "unused_s": said.get("unused_s"),
        "idle_s": said.get("idle_s"),
        "socket": str(place.address),
        "log": str(place.log),
    }


def _serve(request: PlaybookRequest, place: SessionPlace, idle: str) -> None:
    if order(place, "status") is None:
        _refuse_silent(place)
    console.note("ddp-play run with this inventory goes through this session; Ctrl-C ends it, and runs go on")
    Session(request, place, idle_s=_seconds(idle), say=console.note).serve()


def _order(place: SessionPlace, name: str) -> None:
    if order(place, name) is None:
        _refuse_silent(place)
        raise UsageError("this inventory has no session", hint="ddp-play session -i INVENTORY starts one")
    if name == "end":
        deadline = time.monotonic() + END_S
        while is_locked(place.lock) and time.monotonic() < deadline:
            time.sleep(0.02)
        console.note("it was told to end, and has not yet" if is_locked(place.lock) else "ended")
    else:
        console.note("the inventory is read again")


def _refuse_silent(place: SessionPlace) -> None:
    """Busy if there is a session, which has not answered."""
    if not is_locked(place.lock):
        return
    if not place.address.exists():
        raise Busy("the session of this inventory is just starting or ending", hint="try again in a few seconds")
    named, remedy = "", f"kill -9 the process that has {place.lock} (fuser names it); its runs go on"
    if pid := place.holder:
        named, remedy = f" (pid {pid})", f"kill -9 {pid} ends it, and its runs go on"
    raise Busy(f"the session of this inventory does not answer{named}", hint=remedy)


def _seconds(idle: str) -> float:
    try:
        return float(parse_seconds(idle))
    except ValueError as error:
        raise UsageError(f"--idle: {error}") from None


def _start_detached(place: SessionPlace, inventory: list[str], idle: str) -> None:
    """Start the same command in the background. Returns when it is ready."""
    _seconds(idle)
    if found := order(place, "status"):
        raise UsageError(
            f"this inventory has a session already (pid {found['pid']})",
            hint="ddp-play session -i INVENTORY --end ends it",
        )
    _refuse_silent(place)
    words = [sys.executable, "-P", "-m", "ddp_play", "session", "--idle", idle]
    words += [word for source in inventory for word in ("-i", source)]
    make_directory(place.root)
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
