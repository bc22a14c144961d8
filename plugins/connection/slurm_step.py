"""Connection to a node of the Slurm job that this controller runs in: each command is a step of the job."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase

from ddp_play.engines.slurm_script import step_argv

DOCUMENTATION = """
name: slurm_step
short_description: Run tasks on the nodes of a Slurm job
description:
  - Runs each command with C(srun --overlap) in the job whose nodes the play has.
  - C(ddp-play run --on slurm) writes an inventory that uses it; a play does not choose it.
author: ddp-play
options:
  job:
    description: Id of the Slurm job.
    type: str
    required: true
    vars:
      - name: ansible_slurm_job
  node:
    description: Name of the host as a node of Slurm. The address that an inventory gives it is of no use to srun.
    type: str
    required: true
    vars:
      - name: ansible_slurm_node
  binding:
    description: Whether this cluster binds tasks to CPUs, which a step must not be.
    type: bool
    default: false
    vars:
      - name: ansible_slurm_binding
"""


class Connection(ConnectionBase):  # type: ignore[misc] # Ansible has no types
    """A step per command; files go through standard input and output of one."""

    transport = "ddp.play.slurm_step"
    has_pipelining = True

    def _connect(self) -> Connection:
        return self

    def step_argv(self) -> list[str]:
        """The command line up to the place of the shell command."""
        return step_argv(self.get_option("job"), self.get_option("node"), binding=self.get_option("binding"))

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command on the node."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        done = subprocess.run([*self.step_argv(), cmd], input=in_data or b"", capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file to the node."""
        super().put_file(in_path, out_path)
        source = Path(in_path)
        if not source.exists():
            raise AnsibleFileNotFound(f"no file {in_path}")
        code, _, err = self.exec_command(f"cat > {self._shell.quote(out_path)}", source.read_bytes())
        if code:
            raise AnsibleConnectionFailure(f"{in_path} was not copied to {out_path}: {err.decode(errors='replace')}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file from the node."""
        super().fetch_file(in_path, out_path)
        code, data, err = self.exec_command(f"cat {self._shell.quote(in_path)}")
        if code:
            raise AnsibleConnectionFailure(f"{in_path} was not read: {err.decode(errors='replace')}")
        Path(out_path).write_bytes(data)

    def close(self) -> None:
        """Nothing stays open."""
        self._connected = False
