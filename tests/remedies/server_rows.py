"""Logins that an SSH server refuses although the address is right: accounts, keys, its limits and its messages."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.remedies.login_rows import PLAN, as_user, edited
from tests.remedies.rows import Row
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.remedies.scene import Scene

AREA = "Logins that the SSH server refuses"


def at_server(user: str, settings: str = "UsePAM yes", **more: Any) -> Callable[[Scene], list[str]]:
    """`plan` on two hosts that are a server with these settings."""

    def make(scene: Scene) -> list[str]:
        scene.job()
        server = scene.server_with(settings)
        scene.hosts({name: server.host(user, **more) for name in ("h1", "h2")})
        return list(PLAN)

    return make


def strange_key(scene: Scene, name: str = "strange") -> str:
    """A new private key that no server knows."""
    path = scene.cwd / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return str(path)


def with_strange_key(scene: Scene) -> list[str]:
    return as_user(ansible_ssh_private_key_file=strange_key(scene))(scene)


def agent_of_many_keys(scene: Scene) -> list[str]:
    """An agent offers seven keys before the right one; sshd ends the connection after six."""
    keys = [strange_key(scene, f"key-{number}") for number in range(7)] + [str(scene.server.directory / "key")]
    agent = Path(scene.play.environment["ANSIBLE_SSH_CONTROL_PATH_DIR"], "agent")
    child = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL)
    scene.undo += [child.wait, child.kill]
    wait_until(agent.exists, timeout_s=20, what="the agent's socket")
    scene.play.environment["SSH_AUTH_SOCK"] = str(agent)
    subprocess.run(["ssh-add", "-q", *keys], env=scene.play.env(), check=True)
    args = f"-o UserKnownHostsFile={scene.server.directory}/known_hosts"
    return as_user(ansible_ssh_private_key_file="", ansible_ssh_common_args=args)(scene)


def name_the_key(scene: Scene, _told: object) -> None:
    scene.edit("hosts.json", '"ansible_ssh_private_key_file": ""', f'"ansible_ssh_private_key_file": "{_key(scene)}"')
    scene.edit("hosts.json", '"-o UserKnown', '"-o IdentitiesOnly=yes -o UserKnown')


def _key(scene: Scene) -> str:
    return str(scene.server.directory / "key")


def without_expiry(scene: Scene, _told: object) -> None:
    """What chage does on the host. It writes into the file that is mounted, which chage would replace."""
    path = scene.notes["server"].directory / "shadow"
    text = path.read_text()
    line = next(line for line in text.splitlines() if line.startswith("gone:"))
    path.write_text(text.replace(line, line.replace(":1:", "::")))


def many_who_do_not_log_in(scene: Scene) -> list[str]:
    """Somebody holds the one connection that the server allows before a login."""
    words = at_server("ops", "MaxStartups 1\nLoginGraceTime 600")(scene)
    server = scene.notes["server"]
    wait_until(lambda: _holds(scene, server.port), timeout_s=20)  # the connection before it is not ended at once
    return words


def _holds(scene: Scene, port: int) -> bool:
    held = socket.create_connection(("127.0.0.1", port))
    scene.undo.append(held.close)
    with contextlib.suppress(ConnectionResetError):
        return held.recv(16).startswith(b"SSH-")
    return False


def raise_the_limit(scene: Scene, _told: object) -> None:
    server = scene.notes["server"]
    path = server.directory / "sshd_config"
    path.write_text(path.read_text().replace("MaxStartups 1\n", "MaxStartups 100:30:200\n"))
    server.reload()


def banner(scene: Scene) -> list[str]:
    scene.play.write("banner", "#" * 79 + "\nAuthorised users only. Permission denied for all others.\n" + "#" * 79)
    return at_server("opss", f"Banner {scene.cwd}/banner")(scene)


ROWS = (
    Row(
        "key that the server does not know",
        AREA,
        "ops@127.0.0.1: Permission denied",
        "or the key (--private-key, ansible_ssh_private_key_file)",
        with_strange_key,
        69,
        fix=lambda scene, _: scene.edit("hosts.json", f"{scene.cwd}/strange", _key(scene)),
    ),
    Row(
        "agent with more keys than the server tries",
        AREA,
        "Too many authentication failures",
        "name it with ansible_ssh_private_key_file (--private-key), and set -o IdentitiesOnly=yes in "
        "ansible_ssh_common_args",
        agent_of_many_keys,
        69,
        fix=name_the_key,
    ),
    Row(
        "account that has expired",
        AREA,
        "h1, h2: the account gone has expired there",
        "as root on h1,h2: `chage -E -1 USER`",
        at_server("gone"),
        69,
        fix=without_expiry,
    ),
    Row(
        "password that has expired",
        AREA,
        "h1, h2: the password of stale has expired there",
        "or connect as another user with -u",
        at_server("stale"),
        69,
        fix=edited('"stale"', lambda _: '"ops"'),
    ),
    Row(
        "login shell that refuses logins",
        AREA,
        "This account is currently not available",
        "or connect as another user with -u",
        as_user("system"),
        69,
        fix=edited('"system"', lambda _: '"ops"'),
    ),
    Row(
        "more connections than the server takes",
        AREA,
        "kex_exchange_identification",
        "MaxStartups",
        many_who_do_not_log_in,
        69,
        fix=raise_the_limit,
    ),
    Row(
        "wrong user at a server with a banner",
        AREA,
        "opss@127.0.0.1: Permission denied",
        "correct the user (-u, ansible_user)",
        banner,
        69,
        fix=edited('"opss"', lambda _: '"ops"'),
    ),
)
