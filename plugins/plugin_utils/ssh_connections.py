"""Command lines of Ansible's ssh connections, and one shared connection to their jump host."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.run.jump_host import shared_proxy_command

if TYPE_CHECKING:
    from ansible.plugins.connection import ConnectionBase


def ssh_argv(connection: ConnectionBase, address: str) -> list[str]:
    """The connection's own command line, up to where the remote command goes."""
    connection.host = connection.get_option("host") or address
    command = connection._build_command(connection.get_option("ssh_executable"), "ssh", connection.host)
    words = [word.decode() if isinstance(word, bytes) else word for word in command]
    if words[0] == "sshpass":  # the channel answers the prompt itself, also when it is opened again
        for fd in connection.sshpass_pipe or ():
            os.close(fd)
        words = words[words.index(connection.get_option("ssh_executable")) :]
    return words


def share_jump_host(connection: ConnectionBase, address: str) -> None:
    """Have this connection go through a shared one to its jump host, where it has one."""
    if connection.transport != "ssh":
        return
    directory = Path(connection.get_option("control_path_dir")).expanduser()
    command = shared_proxy_command(ssh_argv(connection, address), directory)
    if command:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = shlex.join(["-o", f"ProxyCommand={command}"])
        connection.set_option("ssh_args", f"{ours} {connection.get_option('ssh_args') or ''}")
