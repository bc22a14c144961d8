"""A forked process takes over what the caller has: nothing of the process that it was forked from remains."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ddp_play.ansible import callers_process
from ddp_play.ansible.callers_process import CallersProcess, unequal_limits

# Forks, enters the state given as JSON, and prints the state that the child and a program of the child have.
PROGRAM = """
import json, os, signal, subprocess, sys
from ddp_play.ansible.callers_process import CallersProcess
signal.signal(signal.SIGTERM, lambda *_: None)
wanted = CallersProcess.from_json(json.loads(sys.argv[1]))
pid = os.fork()
if pid == 0:
    wanted.enter()
    child = CallersProcess.this().to_json()
    child["term"] = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    print(json.dumps(child), flush=True)
    subprocess.run(["/bin/sh", "-c", "umask; pwd; echo $SECRET-$LEAK; ulimit -n"], check=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


NICER = """
import json, os, sys
from ddp_play.ansible.callers_process import CallersProcess
caller = CallersProcess.from_json(json.loads(sys.argv[1]))
print(caller.why_not())
os.nice(1)
print(caller.why_not())
"""


def test_the_callers_state_replaces_that_of_the_parent(tmp_path: Path) -> None:
    limits = {**CallersProcess.this().limits, "RLIMIT_NOFILE": (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])}
    environment = {"PATH": os.environ["PATH"], "SECRET": "mine"}
    rights = CallersProcess.this().rights
    wanted = CallersProcess(environment, str(tmp_path), 0o027, limits, (int(signal.SIGHUP),), rights)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(wanted.to_json())],
        env={**os.environ, "LEAK": "of the parent"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, *rest = done.stdout.splitlines()
    found = json.loads(first)
    assert found.pop("term")
    assert CallersProcess.from_json(found) == replace(wanted, ignored=tuple(found["ignored"]))
    assert found["ignored"] == [signal.SIGHUP]
    assert rest == ["0027", str(tmp_path), "mine-", "100"]


def test_a_limit_that_cannot_be_raised_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = CallersProcess.this().limits
    assert unequal_limits(own) == []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (10, 10))
    assert "RLIMIT_NOFILE" in unequal_limits({"RLIMIT_NOFILE": (10, 20), "RLIMIT_CORE": (0, 5)})
    assert unequal_limits({"RLIMIT_NOFILE": (5, 5)}) == []
    assert unequal_limits({"RLIMIT_NOFILE": (5, resource.RLIM_INFINITY)}) == ["RLIMIT_NOFILE"]


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        ("0::/user.slice/user-1000.slice/session-7.scope", True),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/tmux-spawn-0a-1b.scope", True),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.scope", False),
        ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", False),
    ],
)
def test_a_job_or_a_scope_with_limits_is_not_the_login(
    monkeypatch: pytest.MonkeyPatch, other: str, *, is_equal: bool
) -> None:
    """A run in the session of a job would end with the job, and have its limits."""
    said = {"status": "CapEff:\t0\nNoNewPrivs:\t0\n", "cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n"}
    monkeypatch.setattr(callers_process, "_about_this", said.__getitem__)
    caller = CallersProcess.this()
    said["cgroup"] = other + "\n"
    assert caller.why_not() == ("" if is_equal else "its control groups are not the caller's")
    said["status"] = "CapEff:\tff\nNoNewPrivs:\t1\n"
    assert "capabilities" in caller.why_not()


def test_another_nice_value_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NICER, json.dumps(CallersProcess.this().to_json())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["", "its nice values are not the caller's"]


def test_groups_that_cannot_be_taken_over_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `newgrp` or `usermod -aG`, files of the new group could be read without a session only."""
    caller = CallersProcess.this()
    assert caller.why_not() == ""
    monkeypatch.setattr(os, "getgroups", lambda: [4321])
    assert caller.why_not() == "its user and groups are not the caller's"
