"""A program in a container that is made and started as that of a rank, with a time limit; nothing of it stays."""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from . import (
    attempt_directories,
    attempt_preparation,
    container_creation,
    docker_socket,
    host_identity,
    leftover_containers,
    leftovers,
    rank_program,
)
from .bounded_reading import read_all
from .refusal import Refused
from .run_directory import write_json

if TYPE_CHECKING:
    from pathlib import Path

    from .run_directory import HostRun

POLL_S, INSPECT_S = 0.05, 5.0
LATE_S, LATE_POLL_S = 5.0, 0.25  # the engine goes on with an order whose client was killed
# Seconds to remove a container: leftovers.clean gives up on an engine that hangs before that.
REMOVE_S = 50.0


def run(
    place: HostRun,
    spec: Dict[str, Any],
    limits: Tuple[float, float],
    given_up: Optional[Callable[[], bool]] = None,
) -> Dict[str, Any]:
    """What the program printed (`program`), and what could not be removed (`left`), each as `read_all` answers it.

    `program` is as that of `rank_program.run`. Where the container was not started, `problem` has the reason: the image
    is `missing`, or the engine or this program has `refused` (with a `hint`) what it would refuse to a run, too.
    `limits`: seconds of the program, and of the container's start. `given_up`: whether nobody waits any more.
    """
    limit_s, start_s = limits
    attending: Optional[IO[Any]] = None
    found: Dict[str, Any] = {}
    try:
        try:
            attending = place.attend()
        except OSError as error:  # a run cannot have its directory either
            found = {"program": {"value": _unprepared(error, spec)}}
        else:
            found = read_all({"program": (lambda: _run(place, spec, limit_s), start_s + limit_s)}, given_up)
    finally:
        was_cut_off = "value" not in found.get("program", {})
        left = read_all({"left": (lambda: _clean(place, was_cut_off=was_cut_off), REMOVE_S)})
        if attending is not None:
            attending.close()
    return {**found, **left}


def _run(place: HostRun, spec: Dict[str, Any], limit_s: float) -> Dict[str, Any]:
    try:
        if docker_socket.image(spec["image"]) is None:
            return _nothing("image %s is not on this host" % spec["image"], missing=True)
        _create(place, spec)
    except Refused as refused:
        return _nothing(str(refused), refused=True, hint=refused.hint)
    except docker_socket.EngineError as error:
        return _nothing(str(error))
    except (OSError, subprocess.SubprocessError) as error:
        return _unprepared(error, spec)
    return _started(place, spec, limit_s)


def _clean(place: HostRun, *, was_cut_off: bool) -> List[str]:
    """Remove all of it, also a container that the engine makes after its order was cut off; say what is left."""
    left, until = leftovers.clean(place).left, time.monotonic() + LATE_S
    while was_cut_off and not left and time.monotonic() < until:
        try:
            rows = docker_socket.containers("%s=%s" % (leftover_containers.KEY_LABEL, place.run_key))
        except docker_socket.EngineError as error:
            return ["containers of %s: %s" % (place.run_key, error)]
        if rows:
            return leftover_containers.remove_containers([str(row["Id"]) for row in rows])
        time.sleep(LATE_POLL_S)
    return left


def _nothing(problem: str, **more: Any) -> Dict[str, Any]:
    return {"parts": [], "problem": problem, **more}


def _unprepared(error: Exception, spec: Dict[str, Any]) -> Dict[str, Any]:
    hint = attempt_preparation.squash_hint(error, spec)
    return _nothing("cannot prepare: %s" % error, refused=True, hint=hint)


def _create(place: HostRun, spec: Dict[str, Any]) -> None:
    """Files, directories and the container, as for a rank. The spec on the disk is what the clean-up goes by."""
    spec[host_identity.FIELD] = host_identity.identity()
    write_json(place.spec, spec)
    attempt_directories.create_files(place, spec)
    attempt_preparation.write_secrets(place, spec, spec["secrets"])
    container_creation.create(spec)


def _started(place: HostRun, spec: Dict[str, Any], limit_s: float) -> Dict[str, Any]:
    """Start the container that was made, and wait for its end."""
    unit = spec.get("agent") or spec["ranks"][0]
    before, began = rank_program.counters(), time.monotonic()
    try:
        code, words = docker_socket.start(unit["container"])
        if code:
            return _nothing("the container does not start: %s" % words, refused=True, hint="")
        state = _wait(unit["container"], time.monotonic() + limit_s)
    except docker_socket.EngineError as error:
        return _nothing(str(error))
    output = _output(place.agent_log if spec.get("agent") else place.log(int(unit["rank"])))
    found = {"parts": rank_program.parts(output), "before": before, "after": rank_program.counters(),
             "seconds": time.monotonic() - began}  # fmt: skip
    if state is None:
        return {**found, "problem": "no end within %g s" % limit_s}
    code = int(state.get("ExitCode") or 0)
    if code:
        words = _last_line(output) or _last_line(docker_socket.logs_tail(unit["container"]))
        return {**found, "problem": "exit code %d%s" % (code, words and ": " + words)}
    return found


def _wait(container: str, until: float) -> Optional[Dict[str, Any]]:
    """Its state after its end; None at the limit. Raises EngineError."""
    while time.monotonic() < until:
        state = dict(docker_socket.inspect(container, INSPECT_S).get("State") or {})
        if not state.get("Running"):
            return state
        time.sleep(POLL_S)
    return None


def _output(log: Path) -> bytes:
    with contextlib.suppress(OSError), open(str(log), "rb") as file:
        return file.read(rank_program.MAX_OUTPUT)
    return b""


def _last_line(output: bytes) -> str:
    lines: List[str] = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
