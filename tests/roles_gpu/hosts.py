"""Throwaway containers of the lab's image as hosts, and Ansible against them; names start with `rg-`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddp_play.ansible.default_settings import default_settings
from tests.roles_gpu import fixture

# --privileged fails where SYS_RESOURCE is not in the bounding set; these are enough for systemd.
CAPABILITIES = (
    *("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "MKNOD", "DAC_READ_SEARCH", "SYS_NICE"),
    *("IPC_LOCK", "NET_RAW", "AUDIT_CONTROL", "AUDIT_WRITE", "SYSLOG", "SYS_BOOT", "LINUX_IMMUTABLE"),
)
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: "ddp.play.{{ role }}", tasks_from: "{{ part }}"}
      loop: "{{ [tasks_from] | flatten }}"
      loop_control: {loop_var: part}
"""
BOOT_TIMEOUT_S = 300


@dataclass(frozen=True)
class Outcome:
    rc: int
    changed: int
    num_tasks: int
    wall_s: float
    text: str  # everything the modules and asserts said


class Host:
    def __init__(self, name: str, image: str) -> None:
        self.name = name
        self.site: dict[str, Any] = {}  # variables of every play, under those of the play
        options = [f"--cap-add={capability}" for capability in CAPABILITIES]
        options += [f"--security-opt={key}=unconfined" for key in ("seccomp", "apparmor")]
        options += [
            "--device-cgroup-rule=a *:* rwm",
            "--cgroupns=private",
            "--tmpfs=/run:exec,mode=755",
            "--tmpfs=/tmp:exec,mode=1777",
        ]
        docker("run", "-d", "--name", name, *options, image)
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while self.sh("systemctl is-system-running", check=False).strip() not in ("running", "degraded"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} did not boot in {BOOT_TIMEOUT_S} s")
            time.sleep(0.2)

    def sh(self, script: str, *, check: bool = True) -> str:
        return docker("exec", self.name, "sh", "-c", script, check=check)

    def put(self, source: Path, target: str) -> None:
        self.sh(f"rm -rf {target}")
        docker("cp", str(source), f"{self.name}:{target}")

    def show(self, hardware: fixture.Hardware) -> None:
        """Make this the hardware the roles see, at /opt/hardware."""
        with tempfile.TemporaryDirectory() as folder:
            fixture.write(Path(folder), hardware)
            self.put(Path(folder), "/opt/hardware")

    def play(self, role: str, variables: dict[str, Any], *flags: str, tasks_from: str | list[str] = "main") -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            play, inventory, extra = (
                Path(folder, "play.yml"),
                Path(folder, "hosts.json"),
                Path(folder, "vars.json"),
            )
            play.write_text(PLAY, encoding="utf-8")
            host = {
                "ansible_connection": "community.docker.docker",
                "ansible_python_interpreter": "/usr/bin/python3",
            }
            inventory.write_text(json.dumps({"all": {"hosts": {self.name: host}}}), encoding="utf-8")
            given = {**self.site, **variables, "role": role, "tasks_from": tasks_from}
            extra.write_text(json.dumps(given), encoding="utf-8")
            command = [
                str(Path(sys.executable).with_name("ansible-playbook")),
                "-i",
                str(inventory),
                str(play),
            ]
            start = time.monotonic()
            done = subprocess.run(
                [*command, "-e", f"@{extra}", *flags],
                env={
                    **os.environ,
                    **default_settings(folder),  # as ddp-play does: fewer processes, less polling
                    "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
                    "ANSIBLE_DEPRECATION_WARNINGS": "0",
                },
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        return outcome(done, self.name, time.monotonic() - start)

    def remove(self) -> None:
        docker("rm", "-f", "-v", self.name)


def outcome(done: subprocess.CompletedProcess[str], name: str, wall_s: float) -> Outcome:
    try:
        report = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        return Outcome(done.returncode, 0, 0, wall_s, done.stdout + done.stderr)
    tasks = [task["hosts"][name] for play in report["plays"] for task in play["tasks"] if name in task["hosts"]]
    said = [str(task.get("msg", "")) for task in tasks]
    ran = [task for task in tasks if not task.get("skipped") and task.get("action") != "include_tasks"]
    return Outcome(done.returncode, report["stats"][name]["changed"], len(ran), wall_s, "\n".join(said))


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"docker {' '.join(arguments[:3])}: {done.stdout}{done.stderr}")
    return done.stdout
