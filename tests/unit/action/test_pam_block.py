"""The proof by a new login, with a connection and a host that stand for real ones."""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.ddp.play.plugins.action.pam_block import ALONE, ALONE_LAST, ActionModule

if TYPE_CHECKING:
    from pathlib import Path

SITE = "-o ControlMaster=auto -o ControlPath=/tmp/shared"
ARMED = {"changed": True, "armed": True, "unit": "ddp-play-restore-sshd.timer"}


class Connection:
    """One of Ansible, with the site's options."""

    def __init__(self, transport: str = "ssh") -> None:
        """No login so far."""
        self.transport, self.ssh_args, self.ssh_extra_args = transport, SITE, "-S /tmp/shared"

    def get_option(self, name: str) -> str:
        """One of the two options that are read."""
        return str(getattr(self, name))

    def set_option(self, name: str, value: str) -> None:
        """One of the two options that are written."""
        setattr(self, name, value)


def play(monkeypatch: pytest.MonkeyPatch, connection: Connection, proof: Any) -> tuple[dict[str, Any], list[Any]]:
    """What the action answers, and the state and the options of SSH of each execution of the module."""
    calls = []

    def execute(_self: Any, _name: str, *, module_args: dict[str, Any], task_vars: Any) -> Any:
        assert task_vars
        calls.append((module_args.get("state"), f"{connection.ssh_args} ... {connection.ssh_extra_args}"))
        if len(calls) == 1:
            return dict(ARMED)
        if isinstance(proof, Exception):
            raise proof
        return proof

    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    action = ActionModule.__new__(ActionModule)
    action._connection, action._task = connection, SimpleNamespace(args={"lines": ["a"]})
    return action.run(None, {"inventory_hostname": "n1"}), calls


def test_the_login_is_a_new_one_whatever_the_site_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection()
    answer, calls = play(monkeypatch, connection, {})
    assert answer == ARMED
    shared = f"{SITE} ... -S /tmp/shared"
    assert calls == [(None, shared), ("proven", f"-o ControlMaster=no -o ControlPath=none {shared} -S none")]
    assert (connection.ssh_args, connection.ssh_extra_args) == (SITE, "-S /tmp/shared")


def test_programs_of_ssh_share_nothing_with_these_options(tmp_path: Path) -> None:
    """Of an option the first one counts; the last -S counts more than all of these."""
    if shutil.which("ssh") is None:
        pytest.skip("no ssh here")
    site = ["-o", f"ControlPath={tmp_path}/a", "-M", "-S", f"{tmp_path}/b"]
    argv = ["ssh", "-F", "none", "-G", *ALONE.split(), *site, *ALONE_LAST.split(), "h"]
    said = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    assert [line for line in said.splitlines() if line.startswith("controlpath")] == []


@pytest.mark.parametrize(
    "proof",
    [
        AnsibleConnectionFailure("refused"),
        AnsibleError("Incorrect sudo password: refused"),
        {"failed": True, "msg": "refused"},
    ],
)
def test_a_login_that_fails_tells_the_way_back(monkeypatch: pytest.MonkeyPatch, proof: Any) -> None:
    connection = Connection()
    answer, _ = play(monkeypatch, connection, proof)
    assert (answer["failed"], connection.ssh_args) == (True, SITE)
    assert "refused\nThe host restores the file that was there before" in answer["msg"]
    assert "journalctl -n 30 -t sshd -t sshd-session -t pam_slurm_adopt" in answer["msg"]


def test_without_ssh_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, calls = play(monkeypatch, Connection("local"), {})
    assert (answer["failed"], calls) == (True, [])
