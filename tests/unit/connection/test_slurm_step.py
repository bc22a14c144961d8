"""Connection to a node of a Slurm job: commands and files go through steps. Here a program stands for srun."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader

if TYPE_CHECKING:
    from pathlib import Path

SRUN = """#!/bin/sh
echo "$@" > {directory}/asked
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(directory=tmp_path))
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    context = PlayContext()
    context.remote_addr = "192.0.2.1"  # ansible_host of an inventory
    found = connection_loader.get("ddp.play.slurm_step", context)
    variables = {"ansible_slurm_job": "12", "ansible_slurm_node": "n1", "ansible_slurm_binding": True}
    found.set_options(var_options=variables)
    return found


def test_a_command_is_a_step_of_the_job_on_its_node(connection: Any, tmp_path: Path) -> None:
    assert connection.exec_command("cat; echo no >&2; exit 3", in_data=b"a\0b") == (3, b"a\0b", b"no\n")
    asked = (tmp_path / "asked").read_text()
    assert "--jobid=12" in asked
    assert "--nodelist=n1" in asked
    assert "--cpu-bind=none" in asked


def test_files_go_both_ways(connection: Any, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(bytes(range(256)))
    connection.put_file(str(tmp_path / "here"), str(tmp_path / "it's there"))
    connection.fetch_file(str(tmp_path / "it's there"), str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == bytes(range(256))


def test_a_file_that_cannot_be_copied_is_named(connection: Any, tmp_path: Path) -> None:
    with pytest.raises(AnsibleFileNotFound, match="no file"):
        connection.put_file(str(tmp_path / "none"), "/tmp/there")
    (tmp_path / "here").touch()
    with pytest.raises(AnsibleConnectionFailure, match="was not copied"):
        connection.put_file(str(tmp_path / "here"), str(tmp_path / "no" / "directory"))
    with pytest.raises(AnsibleConnectionFailure, match="was not read"):
        connection.fetch_file(str(tmp_path / "none"), str(tmp_path / "back"))
