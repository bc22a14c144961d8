"""Verification of role host_reboot on a host with an engine: what worked before the reboot has to work after it.

A container host cannot reboot; a command in the place of the reboot leaves the engine as a boot might.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import COMMAND, Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "h3"
PLAYBOOK = """
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ansible.builtin.include_role: {name: ddp.play.host_reboot, tasks_from: before}
      when: reads | bool
    - ansible.builtin.command: {cmd: "sh -c '{{ boots }}'"}
    - ansible.builtin.include_role: {name: ddp.play.host_reboot, tasks_from: verify}
"""
STOPPED = "systemctl --quiet stop docker.socket docker.service"
LATE = f"{STOPPED}; systemd-run --quiet --on-active=5 --timer-property=AccuracySec=1s systemctl start docker.service"
SOCKET = "systemctl --quiet stop docker.service; systemctl is-active docker.socket"
# Half a minute, in which the late engine starts.
LOOKS = {"__host_reboot_looks": 8, "__host_reboot_delay_s": 4}


@pytest.fixture(autouse=True)
def engine(lab3: Lab) -> Iterator[None]:
    """The engine runs before each test and after it."""
    lab3.on(HOST, "systemctl is-active docker.service", user="root")
    yield
    lab3.on(HOST, "systemctl start docker.socket docker.service", user="root")


def verified(lab: Lab, folder: Path, boots: str, *, reads: bool = True, units: list[str] | None = None) -> str:
    """What the role says about the host after it; empty if it accepts the host."""
    (folder / "site.yml").write_text(PLAYBOOK)
    extra = json.dumps({"reads": reads, "boots": boots, "host_reboot_units": units or [], **LOOKS})
    ansible = str(Path(COMMAND).with_name("ansible-playbook"))
    words = [ansible, "-i", str(lab.inventory), "--limit", HOST, str(folder / "site.yml"), "-e", extra]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    return " ".join((done.stdout + done.stderr).split()) if done.returncode else ""


def test_an_engine_that_worked_before_and_does_not_now_is_named(lab3: Lab, tmp_path: Path) -> None:
    said = verified(lab3, tmp_path, STOPPED)
    assert f"{HOST} has rebooted, but these units or mounts are not active: docker.service" in said
    assert "To inspect: systemctl status docker.service; journalctl" in said
    assert f"ddp-play reboot -i INVENTORY --open --limit {HOST}" in said


@pytest.mark.parametrize("boots", ["true", LATE, SOCKET], ids=["works", "starts-late", "starts-at-first-use"])
def test_an_engine_that_works_again_is_accepted(lab3: Lab, tmp_path: Path, boots: str) -> None:
    """Units that did not run before, as nfs-server, are not required."""
    assert verified(lab3, tmp_path, boots) == ""
    assert lab3.on(HOST, "systemctl is-active docker.service", user="root") == "active"


@pytest.mark.long
def test_without_a_reading_only_the_sites_units_are_required(lab3: Lab, tmp_path: Path) -> None:
    assert verified(lab3, tmp_path, STOPPED, reads=False) == ""
    said = verified(lab3, tmp_path, STOPPED, reads=False, units=["docker.service", "ssh.service"])
    assert "not active: docker.service" in said
    assert "systemctl status docker.service; journalctl" in said
