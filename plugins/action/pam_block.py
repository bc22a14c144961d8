"""Lines of PAM on a host, and the proof by a new login that whoever writes them can still log in."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MODULE = "ddp.play.pam_block"
# A session of the shared connection that Ansible keeps open passes PAM's account stack no more.
ALONE = "-o ControlMaster=no -o ControlPath=none"
ALONE_LAST = "-S none"  # for ssh alone: the last -S of a site counts more than the options


class ActionModule(ActionBase):
    """Runs the module of the same name, and once more through a new login, which ends the trial."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module answers; failed if the new login is refused."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        host = variables.get("inventory_hostname", "the host")
        arguments = dict(self._task.args)
        is_present = arguments.get("state", "present") == "present"
        if is_present and self._connection.transport != "ssh":
            return {**result, "failed": True, "msg": no_ssh(host, self._connection.transport)}
        found = self._execute_module(MODULE, module_args=arguments, task_vars=variables)
        result.update(found)
        if result.get("failed") or not result.get("armed"):
            return result
        problem = self._prove({**arguments, "state": "proven"}, variables)
        return {**result, "failed": True, "msg": refused(host, result["unit"], problem)} if problem else result

    def _prove(self, arguments: Mapping[str, Any], variables: dict[str, Any]) -> str:
        """Why the new login did not end the trial; empty if it did."""
        try:
            with self._connection_of_its_own():
                proof = self._execute_module(MODULE, module_args=arguments, task_vars=variables)
        except AnsibleError as error:  # no connection, or no sudo
            return str(error)
        return str(proof.get("msg") or "no answer") if proof.get("failed") or proof.get("unreachable") else ""

    @contextlib.contextmanager
    def _connection_of_its_own(self) -> Iterator[None]:
        """The shared connection stays open for what follows, such as the removal of Ansible's temporary files."""
        usual = {name: self._connection.get_option(name) for name in ("ssh_args", "ssh_extra_args")}
        self._connection.set_option("ssh_args", f"{ALONE} {usual['ssh_args'] or ''}")
        self._connection.set_option("ssh_extra_args", f"{usual['ssh_extra_args'] or ''} {ALONE_LAST}")
        try:
            yield
        finally:
            for name, value in usual.items():
                self._connection.set_option(name, value)


def no_ssh(host: str, transport: str) -> str:
    """Message for a host that is provisioned without SSH."""
    return (
        f"{host} is reached by {transport} and not by SSH, so that no new login can prove that it is not locked: "
        "provision it over SSH, or leave slurm_login_needs_job out for it"
    )


def refused(host: str, unit: str, problem: str) -> str:
    """Message for a login that was refused; the host needs nobody to get it back."""
    return (
        f"{host}: a new login over SSH failed after the lines of slurm_login_needs_job were written: "
        f"{problem.strip()}\n"
        f"The host restores the file that was there before, within two minutes of the change ({unit}); sessions "
        "that are open go on. Then run on it: journalctl -n 30 -t sshd -t sshd-session -t pam_slurm_adopt"
    )
