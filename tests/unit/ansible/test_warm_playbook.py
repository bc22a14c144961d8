"""The private seams to ansible-core that a session uses, with the installed version of it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from ddp_play.ansible import warm_playbook
assert warm_playbook.import_ansible()
inventory = warm_playbook.read_inventory([sys.argv[1]], static=True)
print("kept", inventory is not None, flush=True)
for number in (1, 2):
    pid = os.fork()
    if pid == 0:
        argv = ["ansible-playbook", "-i", sys.argv[1], *sys.argv[3:], "-e", f"number={number}", sys.argv[2]]
        os._exit(warm_playbook.run_playbook(argv, inventory))
    print("code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
PLAY = """
- hosts: one
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ 'say' }}-{{ color }}-{{ number }}-{{ groups['all'] | length }}"
    - ansible.builtin.fail:
      when: number | int == 2
"""


def run(tmp_path: Path, *options: str, warnings: str = "error::UserWarning") -> list[str]:
    """Output of two playbooks that a process with the inventory has forked."""
    (tmp_path / "play.yml").write_text(PLAY)
    words = [str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml"), *options]
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", PROGRAM, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines()]


def test_two_playbooks_run_with_an_inventory_that_was_read_once(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {one: {color: red}, two: {}}}\n")
    lines = run(tmp_path)
    assert lines[0] == "kept True"
    assert '"msg": "say-red-1-2"' in lines
    assert '"msg": "say-red-2-2"' in lines
    assert [line for line in lines if line.startswith("code")] == ["code 0", "code 2"]


def test_an_inventory_with_a_warning_is_read_by_each_playbook(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {children: {bad-name: {hosts: {one: {color: red}}}}}\n")
    lines = run(tmp_path, warnings="default")  # in a session a process that has not tried reads it
    assert lines[0] == "kept False"
    assert '"msg": "say-red-1-1"' in lines


def test_the_seams_are_what_they_were() -> None:
    from ansible import cli, constants  # noqa: PLC0415 - reads the environment
    from ansible.cli.playbook import PlaybookCLI  # noqa: PLC0415
    from ansible.utils import vars as unique  # noqa: PLC0415

    from ddp_play.ansible.warm_playbook import OF_THE_RUN  # noqa: PLC0415

    assert callable(cli.init_plugin_loader)
    assert "init_plugin_loader(" in inspect.getsource(cli.CLI.run)
    source = inspect.getsource(PlaybookCLI._play_prereqs)
    assert source.rstrip().endswith("return loader, inventory, variable_manager")
    assert isinstance(unique.random_int, str)
    assert all(hasattr(constants, name) for name in OF_THE_RUN)


@pytest.mark.parametrize("option", ["-v", "--flush-cache"])
def test_options_that_change_the_reading_let_the_playbook_read(tmp_path: Path, option: str) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {one: {color: red}}}\n")
    assert '"msg": "say-red-1-1"' in run(tmp_path, option)
