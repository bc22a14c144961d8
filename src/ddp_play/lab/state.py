"""Files of a lab on this machine: SSH keys, known_hosts, plan, inventory."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import yaml
from pydantic import TypeAdapter, ValidationError

from ddp_play.bundle.paths import home, make_directory, write_text
from ddp_play.errors import Busy, HostNotReady
from ddp_play.lab.layout import Host, LabPlan
from ddp_play.lab.spec import SHARED_DIR, JobEngine, check_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PLAN = TypeAdapter(LabPlan)


@dataclass(frozen=True)
class LabState:
    """Paths of one lab on this machine."""

    directory: Path

    @property
    def key(self) -> Path:
        """Private SSH key of the lab; the public one is next to it."""
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """known_hosts file with the host keys."""
        return self.directory / "known_hosts"

    @property
    def inventory(self) -> Path:
        """Inventory of the lab, for `-i`."""
        return self.directory / "inventory" / "hosts.yml"

    @property
    def plan_file(self) -> Path:
        """Plan of the last `up`, as JSON."""
        return self.directory / "lab.json"

    def host_key(self, host: Host) -> Path:
        """Private SSH host key of one host."""
        return self.directory / "host-keys" / host.name

    def load_plan(self) -> LabPlan | None:
        """Plan of the last `up`; None if there is none or an older version wrote it."""
        try:
            return _PLAN.validate_json(self.plan_file.read_bytes())
        except (OSError, ValidationError):
            return None

    def save_plan(self, plan: LabPlan) -> None:
        """Write the plan for `load_plan`. Raises OSError."""
        write_text(self.plan_file, _PLAN.dump_json(plan, indent=2).decode() + "\n")

    def remove(self) -> None:
        """Remove the directory with everything in it."""
        shutil.rmtree(self.directory, ignore_errors=True)


def lab_state(name: str) -> LabState:
    """State directory of a lab, next to the runs. Raises UsageError for an invalid name."""
    check_name(name)
    return LabState(home().absolute() / "lab" / name)


@contextmanager
def locked(state: LabState) -> Iterator[None]:
    """Lock a lab, so that one `up` or `down` runs at a time. Raises Busy if another one is running."""
    make_directory(state.directory.parent)
    path = state.directory.parent / f".{state.directory.name}.lock"
    with path.open("w") as file:
        if not _lock(file, path):
            raise Busy(f"another `ddp-play lab` command is changing lab {state.directory.name}")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def make_keys(state: LabState, plan: LabPlan) -> None:
    """Create the lab's key pair, a host key per host and known_hosts; keep existing keys. Raises HostNotReady."""
    make_directory(state.directory)
    (state.directory / "host-keys").mkdir(exist_ok=True, mode=0o700)
    _make_key(state.key, f"ddp-play-lab-{plan.spec.name}")
    lines = []
    for host in plan.hosts:
        _make_key(state.host_key(host), host.name)
        public = state.host_key(host).with_suffix(".pub").read_text().split()
        lines.append(f"{','.join((host.name, *host.addresses))} {public[0]} {public[1]}\n")
    write_text(state.known_hosts, "".join(lines))


def ssh_options(state: LabState) -> list[str]:
    """ssh options: this lab's known_hosts, and no other key of the user."""
    return [
        "-o",
        f'UserKnownHostsFile="{state.known_hosts}"',
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "IdentitiesOnly=yes",
    ]


def inventory(state: LabState, plan: LabPlan) -> dict[str, Any]:
    """The lab as an ordinary Ansible inventory."""
    common_args = " ".join(_quoted(option) for option in ssh_options(state))
    hosts = {host.name: {"ansible_host": host.addresses[0], "ddp_slots": host.slots} for host in plan.hosts}
    variables = {
        "ansible_user": plan.spec.user,
        "ansible_ssh_private_key_file": str(state.key),
        "ansible_ssh_common_args": common_args,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ddp_shared_dir": SHARED_DIR,
    }
    return {"all": {"children": {"ranks": {"hosts": hosts, "vars": variables}, **_slurm_groups(plan)}}}


def _slurm_groups(plan: LabPlan) -> dict[str, Any]:
    """Groups of role slurm: every host is a node, and the first one is the controller too."""
    if plan.spec.job_engine != JobEngine.SLURM:
        return {}
    names = [host.name for host in plan.hosts]
    return {
        "slurm_controller": {"hosts": dict.fromkeys(names[:1])},
        "slurm_nodes": {"hosts": dict.fromkeys(names)},
    }


def write_inventory(state: LabState, plan: LabPlan) -> None:
    """Write inventory/hosts.yml, on every `up`. Raises OSError."""
    text = yaml.safe_dump(inventory(state, plan), sort_keys=False, width=1000)
    write_text(
        state.inventory,
        f"---\n# Written by `ddp-play lab up --name {plan.spec.name}`; gone after `lab down`.\n{text}",
    )


def _lock(file: IO[str], path: Path) -> bool:
    """Take the lock; False if another process holds it, or has just released it and removed the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _make_key(path: Path, comment: str) -> None:
    if path.exists() and path.with_suffix(".pub").exists():
        return
    path.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise HostNotReady("ssh-keygen is not installed", hint="apt-get install openssh-client") from None
    except subprocess.CalledProcessError as error:
        raise HostNotReady(f"ssh-keygen could not write {path} (exit {error.returncode})") from None


def _quoted(option: str) -> str:
    return f"'{option}'" if any(char in option for char in ' "') else option
