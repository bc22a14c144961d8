"""Start of the guard: as a systemd unit where possible, else as a process with a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

from . import allocation_step, guard_link, host_drain, leases, login_session, programs, slot_queue
from .refusal import Refused
from .run_directory import HostRun, read_json
from .state_directory import OF_HOST

GUARD_START_S = 60.0  # enough on a busy host
SYSTEMD_S = 30.0
OOM_POLICY_SINCE = 243  # version of systemd
# Variables of the login that a guard needs; the user manager has an environment of its own.
KEPT_ENV = (OF_HOST, "DOCKER_HOST", "PATH", "XDG_STATE_HOME")


def start_guard(place: HostRun, *, ends_at_logout: bool, kept_open: Sequence[int] = ()) -> Dict[str, Any]:
    """Start the guard and return its first state. Raises Refused with its last output if it does not start.

    `ends_at_logout`: what `login_session.ends_at_logout` says; the guard is then a unit of the user manager.
    `kept_open`: descriptors that a guard which is no unit inherits.
    """
    command = [sys.executable, "-I", "-S", sys.argv[0], "guard", str(place.root)]
    unit = "ddp-play-%s-%s" % (place.run_key, place.root.name.replace("@", "_"))
    with open(str(place.guard_log), "ab") as log:
        unit_allowed = not allocation_step.in_step()  # a unit would leave the allocation's cgroup, and its limits
        if (
            unit_allowed
            and os.geteuid() == 0
            and Path("/run/systemd/system").is_dir()
            and programs.which("systemd-run")
        ):
            _start_unit(unit, command, place)
        elif unit_allowed and ends_at_logout:
            _start_unit(unit, command, place, of_user=True)
        else:
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                pass_fds=kept_open,
            ).returncode = 0  # fmt: skip
    deadline = time.monotonic() + GUARD_START_S
    while time.monotonic() < deadline:
        state = guard_link.look(place)[0]
        if state and state["phase"] == "ended":
            raise _not_started(read_json(place.spec) or {}, state["reason"])
        if state:
            return state
        time.sleep(0.01)
    words = place.guard_log.read_text(errors="replace").strip().splitlines()
    raise Refused("the guard did not start: %s" % (words[-1] if words else "no message"), kind="internal")


def _not_started(spec: Dict[str, Any], reason: str) -> Refused:
    """The refusal of a guard that ended at once. Raises Refused with the holders of the slots where they are known."""
    if reason != leases.SLOTS_TAKEN:
        return Refused(reason, kind="busy")
    host_drain.check(spec)
    slot_queue.check_slots(spec.get("slots") or {})
    return Refused(reason, kind="slots")


def _start_unit(unit: str, command: List[str], place: HostRun, *, of_user: bool = False) -> None:
    """Start the guard as a transient systemd unit: own cgroup, not ended by a logout, removed when the guard ends.

    `of_user`: as a unit of the user manager, which must linger.
    """
    properties = [
        "--property=KillMode=mixed",
        "--property=StandardOutput=append:%s" % place.guard_log,
        "--property=StandardError=append:%s" % place.guard_log,
        "--property=TasksMax=infinity",
        "--property=LimitMEMLOCK=infinity",
        *_memory_policy(),
    ]
    manager, env = ["--system"], dict(os.environ)
    if of_user:
        kept = ["--setenv=%s=%s" % (name, os.environ[name]) for name in KEPT_ENV if name in os.environ]
        manager, env = ["--user", *kept], login_session.user_manager_environment()
    done = _ask_systemd(
        ["systemd-run", *manager, "--quiet", "--collect", "--unit=" + unit, *properties, "--", *command], env
    )
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise Refused("systemd-run cannot start the guard: %s" % words, kind="internal")


def _memory_policy() -> List[str]:
    """Properties that keep the guard when the kernel kills a rank for memory: systemd would stop the whole unit."""
    done = _ask_systemd(["systemctl", "--version"], dict(os.environ))
    words = done.stdout.split()
    known = len(words) > 1 and words[1].isdigit() and int(words[1]) >= OOM_POLICY_SINCE
    return ["--property=OOMPolicy=continue"] if known else []


def _ask_systemd(command: List[str], env: Dict[str, str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(command, env=env, capture_output=True, timeout=SYSTEMD_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refused(
            "the guard was not started: %s did not answer within %g s" % (command[0], SYSTEMD_S),
            hint="on the host: systemctl status; start the run again when systemd answers",
        ) from error
