"""Hosts of a lab for the self-test: commands that make and mend defects on them, and the check itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.checks.self_test.defect import HOSTS, filled
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.lab.state import lab_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.checks.self_test.defect import Defect
    from ddp_play.lab.layout import LabPlan

COMMAND_S, CHECK_S = 60.0, 240.0
FILES = Path(__file__).parent


class NotDone(Exception):  # noqa: N818 - no error of the program: the reason why a trial has no result
    """A defect could not be made, or a check gave no answer."""


@dataclass(frozen=True, slots=True)
class LabHosts:
    """The hosts of one lab: its inventory, and names and addresses for the commands."""

    inventory: Path
    values: dict[str, str]

    def run(self, command: str) -> None:
        """Run a command of a defect. Raises NotDone with the first line that it printed as an error."""
        try:
            done = subprocess.run(
                ["sh", "-c", filled(command, self.values)], capture_output=True, text=True, errors="replace",
                timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NotDone(f"the command took more than {COMMAND_S:g} s") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise NotDone(lines[0][:200])

    def mend(self, defect: Defect) -> None:
        """Mend a defect; what remains is seen by the check that follows."""
        with contextlib.suppress(NotDone):
            self.run(defect.mend)

    def check(self, level: str, hosts: Sequence[str], options: Sequence[str]) -> tuple[list[dict[str, Any]], float]:
        """Findings of `ddp-play check` and its seconds. Raises NotDone.

        Each check has logins of its own: limits are those of a login.
        """
        words = ["check", "-i", str(self.inventory), "--limit", ",".join(hosts), "--level", level, *options, "--json"]
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cp-") as sockets:
            try:
                done = subprocess.run(
                    [sys.executable, "-P", "-m", "ddp_play", *words], capture_output=True, text=True, errors="replace",
                    timeout=CHECK_S, check=False, stdin=subprocess.DEVNULL,
                    env={**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets},
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise NotDone(f"the check took more than {CHECK_S:g} s") from None
        try:
            return json.loads(done.stdout)["findings"], time.monotonic() - began
        except (ValueError, KeyError):
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise NotDone(f"the check has no answer: {lines[-1][:200]}") from None


def hosts_of(name: str) -> LabHosts:
    """The hosts of a lab that is up.

    UsageError without the lab or with too few hosts, HostNotReady without the program `docker`.
    """
    if shutil.which("docker") is None:
        raise HostNotReady(
            "the program docker is not installed: defects are made with it", hint="apt-get install docker.io"
        )
    state = lab_state(name)
    plan = state.load_plan()
    up = f"ddp-play lab up --name {name} --hosts {len(HOSTS)} --no-docker"
    if plan is None:
        raise UsageError(f"there is no lab named {name}", hint=up)
    if len(plan.hosts) < len(HOSTS):
        hint = f"ddp-play lab down --name {name}; {up}"
        raise UsageError(f"lab {name} has {len(plan.hosts)} hosts; the self-test needs {len(HOSTS)}", hint=hint)
    return of_plan(state.inventory, plan)


def of_plan(inventory: Path, plan: LabPlan) -> LabHosts:
    """The hosts of a plan, whatever their number."""
    values = {host.name: host.container for host in plan.hosts}
    values |= {f"a{host.name[1:]}": host.addresses[-1] for host in plan.hosts}
    net = values["a1"].rpartition(".")[0]
    return LabHosts(inventory, {**values, "net": net, "cpus": str(os.cpu_count()), "files": str(FILES)})
