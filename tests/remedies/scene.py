"""The place of one row: ddp-play with state of its own, inventories and jobs, and an SSH server of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.remedies.logins import USERS
from tests.run import ssh_server
from tests.run.conftest import Done

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.run.conftest import Play
    from tests.run.ssh_server import SshServer

GOOD: dict[str, Any] = {"command": ["true"]}
HERE: dict[str, Any] = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    "ddp_python": sys.executable,
    "ddp_slots": 2,
}


@dataclass
class Scene:
    """What the functions of a row use. Files are in `play.cwd`, where its commands are run."""

    play: Play
    start_server: Callable[[], SshServer]
    notes: dict[str, Any] = field(default_factory=dict)
    undo: list[Callable[[], object]] = field(default_factory=list)

    @property
    def cwd(self) -> Path:
        """Working directory of the commands."""
        return self.play.cwd

    @property
    def server(self) -> SshServer:
        """The SSH server; the test is skipped where none can run."""
        return self.start_server()

    def server_with(self, settings: str = "", script: str = "") -> SshServer:
        """A server of this row alone: with settings of sshd, and a script that prepares its namespace."""
        if reason := ssh_server.why_not():
            pytest.skip(reason)
        made = ssh_server.start(self.cwd / "server", USERS, settings, script)
        self.undo.append(made.close)
        self.notes["server"] = made
        return made

    def job(self, **variables: Any) -> str:
        """The playbook job.yml with these variables of the job."""
        return self.play.job({**GOOD, **variables}).name

    def inventory(self, *, group: str = "ranks", **variables: Any) -> str:
        """The inventory hosts.json of this machine as `localhost`, with more variables."""
        return self.hosts({"localhost": {**HERE, **variables}}, group=group)

    def hosts(self, hosts: dict[str, dict[str, Any]], *, group: str = "ranks", name: str = "hosts.json") -> str:
        """An inventory of these hosts."""
        return self.play.write(name, json.dumps({"all": {"children": {group: {"hosts": hosts}}}}, indent=1)).name

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file, as a user with an editor."""
        path = self.cwd / name
        text = path.read_text(encoding="utf-8")
        assert old in text, (old, text)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def __call__(self, words: list[str]) -> Done:
        """`ddp-play WORDS`, with the passwords of the notes on standard input."""
        child = self.play.start(*words, stdin=subprocess.PIPE)
        out, err = child.communicate(self.notes.get("stdin", ""), timeout=120)
        return Done(child.returncode, out, err)

    def shell(self, command: str) -> Done:
        """A command of a message as the user's shell runs it. `export` lasts, as in the user's shell."""
        ended = subprocess.run(
            ["bash", "-c", f"{command}\ncode=$?\nexport -p > {self.cwd}/.exported\nexit $code"],
            cwd=self.cwd, env=self.play.env(), capture_output=True, text=True, timeout=120, check=False,
            input=self.notes.get("stdin", ""),
        )  # fmt: skip
        self._keep_exported()
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def _keep_exported(self) -> None:
        exported = self.cwd / ".exported"
        shown = subprocess.run(
            ["bash", "-c", f". {exported}; env -0"], env={}, capture_output=True, text=True, check=True
        )
        found = dict(row.split("=", 1) for row in shown.stdout.split("\0") if "=" in row)
        exported.unlink()
        before = self.play.env()
        new = {name: value for name, value in found.items() if before.get(name) != value}
        self.play.environment |= {
            name: value for name, value in new.items() if name not in ("_", "SHLVL", "PWD", "OLDPWD")
        }

    def close(self) -> None:
        """Put back what the row changed outside its directory."""
        for step in reversed(self.undo):
            step()


def chmod_later(scene: Scene, path: Path, mode: int) -> None:
    """Give the path this mode when the row ends."""
    scene.undo.append(lambda: os.chmod(path, mode))  # noqa: PTH101 - a lambda needs an expression
