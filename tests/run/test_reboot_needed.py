"""Role host_reboot on this machine, which it never reboots: which hosts `ddp-play reboot --needed` takes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.roles_gpu import fixture
from tests.run.ansible_playbook import run_playbook

pytestmark = pytest.mark.runner

PLAYBOOK = """
- hosts: all
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  roles:
    - ddp.play.host_reboot
"""
INSTALLED = "580.178.04"
MODINFO = f"#!/bin/sh\necho 'version:        {INSTALLED}'\necho 'license:        Dual MIT/GPL'\n"


@pytest.mark.skipif(Path("/run/reboot-required").exists(), reason="this machine's distribution asks for a reboot")
def test_a_driver_that_waits_for_a_reboot_needs_one(tmp_path: Path) -> None:
    """The role finds that both hosts are this machine and leaves out the one that is due."""
    for name, loaded in {"waits": "570.86.15", "current": INSTALLED}.items():
        fixture.write(tmp_path / name, fixture.Hardware(loaded=loaded))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/modinfo").write_text(MODINFO)
    (tmp_path / "bin/modinfo").chmod(0o755)
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    folder = f"{tmp_path}/{{{{ inventory_hostname }}}}"
    hardware = {"__host_reboot_sysfs": f"{folder}/sys", "__host_reboot_procfs": f"{folder}/proc"}
    extra = json.dumps(hardware | {"host_reboot_when": "required"})
    words = ["--check", "-i", "waits,current", "site.yml", "-e", extra]
    code, tasks = run_playbook(tmp_path, *words, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert code == 0, tasks
    said = [
        (host, str(result.get("msg")))
        for task in tasks
        for host, result in task["hosts"].items()
        if result["action"].endswith("debug") and not result.get("skipped")
    ]
    assert [host for host, text in said if text.startswith("pending: host_reboot: waits is the machine")] == ["waits"]
    assert ("current", "skipped: host_reboot: this host needs no reboot") in said
    assert len(said) == 2
