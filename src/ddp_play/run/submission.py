"""Submission of a run: create its directory and start its background process."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ddp_play.bundle.controller_user import user_name
from ddp_play.bundle.disk_space import refuse_full
from ddp_play.bundle.format_version import format_stamp
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, check_run_id, make_directory, read_json, runs_dir, write_json
from ddp_play.bundle.run_ids import new_run_id, new_token
from ddp_play.engines.registry import engine_of
from ddp_play.engines.route import Route
from ddp_play.errors import InternalError, NotTakenOver, UsageError
from ddp_play.run import session_request
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.session_place import SessionPlace

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.ansible.runner import Passwords, PlaybookRequest

BACKGROUND_START_S = 20.0
LOGIN_S = 20.0


def create_run(request: PlaybookRequest, *, name: str, output: Path | None, argv: list[str]) -> RunPaths:
    """Create a run directory with its run.json. UsageError if the name is taken or invalid; DiskFull."""
    runs = runs_dir()
    run_id = check_run_id(name) if name else new_run_id(runs)
    paths = RunPaths(runs / run_id)
    if output is not None:
        _check_output(output)
    make_directory(runs)
    refuse_full(runs)
    try:
        paths.root.mkdir(mode=0o700)  # atomic: of two runs that start at once, one gets the name
    except FileExistsError:
        shows = f"results {run_id} shows it" if paths.run.exists() else f"rm {run_id} removes what a killed start left"
        raise UsageError(f"run {run_id} exists already", hint=f"ddp-play {shows}; choose another --name") from None
    try:
        _write_request(paths, request, output=output, argv=argv)
        if output is not None:
            _link(output, paths.root)
    except BaseException:  # also Ctrl-C: the name would be taken by a run that is none
        shutil.rmtree(paths.root, ignore_errors=True)
        raise
    return paths


def _link(output: Path, root: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.is_dir():
        output.rmdir()
    output.symlink_to(root)


def discard_run(paths: RunPaths, output: Path | None) -> None:
    """Remove a run directory that `create_run` made and whose run was not started, and the link to it."""
    if output is not None and output.is_symlink():
        output.unlink()
    shutil.rmtree(paths.root, ignore_errors=True)


def _write_request(paths: RunPaths, request: PlaybookRequest, *, output: Path | None, argv: list[str]) -> None:
    """The folders of the bundle, and its first run.json."""
    paths.create()
    write_json(
        paths.run,
        {
            **format_stamp(),
            "id": paths.run_id,
            "token": new_token(),
            "status": str(RunStatus.STARTING),
            "created": time.time(),
            "owner": user_name(),
            "controller": socket.gethostname(),
            "argv": argv,
            "request": request.to_json(),
            "output": str(output.absolute()) if output is not None else "",
        },
    )


def _check_output(output: Path) -> None:
    """UsageError unless a link can be made there, in place of nothing or of an empty directory."""
    above = next(path for path in output.absolute().parents if path.exists())
    if output.is_dir():
        problem = "exists and is not empty" if any(output.iterdir()) else ""
    elif output.exists():
        problem = "is a file"
    else:
        problem = "" if above.is_dir() else f"cannot be made: {above} is a file"
    if not problem and not os.access(above, os.W_OK):
        problem = f"cannot be made: {above} is not writable"
    if problem:
        raise UsageError(f"--output {output} {problem}", hint="give the path of a directory that does not exist yet")


def hosts_with_password(paths: RunPaths) -> list[str]:
    """The hosts that let this run's user in with a password only."""
    routes = (Route.from_json(row) for row in read_json(paths.channels).get("routes") or ())
    return [route.host for route in routes if route.asks_password]


def check_password(paths: RunPaths, verb: str, password: str) -> None:
    """UsageError where the first host with a password refuses this one: the run itself is not touched by that.

    `verb`: the command to give again.
    """
    routes = (Route.from_json(row) for row in read_json(paths.channels)["routes"])
    route = next(route for route in routes if route.asks_password)
    channel = ProcessChannel(
        replace(engine_of(route).fresh(route), command="exit 0", become_success=""), ssh_password=password
    )
    deadline = time.monotonic() + LOGIN_S
    while not channel.broken and time.monotonic() < deadline:
        wait_any([channel], 0.5)
        channel.receive()
    channel.close()
    if "Permission denied" in channel.broken:
        hint = f"ddp-play {verb} {paths.run_id} -k; the run was not changed"
        raise UsageError(f"{route.host} refuses the SSH password: {channel.broken}", hint=hint)


def restart_problem(paths: RunPaths) -> str:
    """Why a process that takes over the run cannot restart it; empty if it can, or if the job does not restart."""
    fleet = read_json(paths.fleet)
    names = sorted({*(fleet.get("secret_names") or ()), *(fleet.get("secret_env") or ())})
    if not names or not read_json(paths.job).get("restarts"):
        return ""
    return (
        f"run {paths.run_id} is followed to its end, but cannot be restarted after a failure: only the process that "
        f"started it had the values of its secrets ({', '.join(names[:5])}{' and more' if len(names) > 5 else ''})"
    )


def take_over_problem(paths: RunPaths) -> NotTakenOver | None:
    """Why the newest take-over of the run did not begin; None if it did."""
    found = read_json(paths.background).get("not_taken_over")
    return NotTakenOver(found["message"], hint=found["hint"]) if found else None


def start_background(paths: RunPaths, passwords: Passwords, *, take_over: bool = False) -> str:
    """Start the run's background process: by the session of its inventory, if there is one.

    Returns when it holds its lock, with a note if there is a session that could not be used. InternalError if it does
    not start.
    """
    given = json.dumps(asdict(passwords)).encode()
    request = read_json(paths.run).get("request") or {}
    place = SessionPlace.of(tuple(request.get("inventory") or ()), str(request.get("cwd")))
    answer = session_request.start_run(place, paths, given, take_over=take_over)
    process = None
    if not answer.pid:
        process = _start_process(paths, given, take_over=take_over)
        answer = replace(answer, pid=process.pid)
    deadline = time.monotonic() + BACKGROUND_START_S
    while time.monotonic() < deadline:
        if read_json(paths.background).get("pid") == answer.pid:
            if process is not None:
                process.returncode = 0  # no warning from Popen: the process is meant to outlive this one
            return answer.note
        if process.poll() is not None if process else not _exists(answer.pid):
            break
        time.sleep(0.02)
    raise InternalError("the background process of the run did not start", hint=f"see {paths.supervisor_log}")


def _start_process(paths: RunPaths, given: bytes, *, take_over: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "ddp_play.run.background_process", str(paths.root)]
    if take_over:
        command.append("--take-over")
    with paths.supervisor_log.open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, close_fds=True
        )
    if process.stdin is not None:
        process.stdin.write(given)
        process.stdin.close()
    return process


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
