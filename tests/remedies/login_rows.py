"""Failures of logins on an SSH server: addresses, keys, passwords, sudo, Python and homes of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.remedies.logins import PASSWORD
from tests.remedies.rows import Row

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

    from tests.remedies.scene import Scene

AREA = "Logins"
PLAN = ["plan", "job.yml", "-i", "hosts.json"]


def as_user(user: str = "ops", *options: str, stdin: str = "", **more: Any) -> Callable[[Scene], list[str]]:
    """`plan` on two hosts that are the SSH server, as this user."""

    def make(scene: Scene) -> list[str]:
        scene.notes["stdin"] = stdin
        scene.job()
        scene.hosts({name: scene.server.host(user, **more) for name in ("h1", "h2")})
        return [*PLAN, *options]

    return make


def knowing(keys: Callable[[Scene], str]) -> Callable[[Scene], list[str]]:
    """`plan` with a file of known hosts that has these keys."""

    def make(scene: Scene) -> list[str]:
        scene.play.write("known", keys(scene))
        return as_user(ansible_ssh_common_args=f"-o UserKnownHostsFile={scene.cwd}/known -o IdentitiesOnly=yes")(scene)

    return make


def anothers_key(scene: Scene) -> str:
    """The user's key as if it were that of the server."""
    kind, key, *_ = (scene.server.directory / "key.pub").read_text().split()
    return f"[127.0.0.1]:{scene.server.port} {kind} {key}\n"


def readable_key(scene: Scene) -> list[str]:
    path = scene.play.write("key", (scene.server.directory / "key").read_text())
    path.chmod(0o644)
    return as_user(ansible_ssh_private_key_file=str(path))(scene)


def edited(old: str, new: Callable[[Scene], str]) -> Callable[[Scene, re.Match[str]], None]:
    """Correct the inventory."""
    return lambda scene, _told: scene.edit("hosts.json", old, new(scene))


def typing(*options: str) -> Callable[[Scene], list[str]]:
    """The command with this option and the right password."""

    def again(scene: Scene) -> list[str]:
        scene.notes["stdin"] = PASSWORD + "\n"
        return [*PLAN, *options]

    return again


NO_KEY = {"ansible_ssh_private_key_file": "/nowhere/key"}

ROWS = (
    Row(
        "name that does not resolve",
        AREA,
        "Could not resolve hostname gpu01.nowhere.invalid",
        "set ansible_host of HOST in the inventory to an address",
        as_user(ansible_host="gpu01.nowhere.invalid"),
        69,
        fix=edited("gpu01.nowhere.invalid", lambda _: "127.0.0.1"),
    ),
    Row(
        "port without an SSH server",
        AREA,
        "port 9: Connection refused",
        "correct ansible_port of HOST",
        as_user(ansible_port=9),
        69,
        fix=edited('"ansible_port": 9', lambda scene: f'"ansible_port": {scene.server.port}'),
    ),
    Row(
        "unknown host key",
        AREA,
        "Host key verification failed",
        "if the host is new: `ssh-keyscan -p PORT ADDRESS >> FILE`",
        knowing(lambda _: ""),
        69,
    ),
    Row(
        "changed host key",
        AREA,
        "its SSH host key is not the known one in",
        "if the host was reinstalled: `ssh-keygen -f FILE -R 'NAME' && ssh-keyscan -p PORT ADDRESS >> ...known`",
        knowing(anothers_key),
        69,
    ),
    Row(
        "wrong user",
        AREA,
        "opss@127.0.0.1: Permission denied",
        "correct the user (-u, ansible_user)",
        as_user("opss"),
        69,
        fix=edited('"opss"', lambda _: '"ops"'),
    ),
    Row(
        "key that is not there",
        AREA,
        "no such identity: /nowhere/key",
        "the SSH key FILE does not exist here: correct ansible_ssh_private_key_file",
        as_user(**NO_KEY),
        69,
        fix=edited("/nowhere/key", lambda scene: str(scene.server.directory / "key")),
    ),
    Row(
        "key that others may read",
        AREA,
        "bad permissions",
        "ssh ignores a private key that others may read: `chmod 600 FILE`",
        readable_key,
        69,
    ),
    Row(
        "login with a password",
        AREA,
        "no such identity: /nowhere/key",
        "or give the password with -k",
        as_user("typed", **NO_KEY),
        69,
        again=typing("-k"),
    ),
    Row(
        "sudo that asks for a password",
        AREA,
        "sudo: a password is required",
        "give the password with -K",
        as_user("sudoer", "-b"),
        69,
        again=typing("-b", "-K"),
    ),
    Row(
        "wrong sudo password",
        AREA,
        "sudo does not accept the password",
        "give it again",
        as_user("sudoer", "-b", "-K", stdin="wrong\n"),
        69,
        again=typing("-b", "-K"),
    ),
    Row(
        "user who is no sudoer",
        AREA,
        "is not in the sudoers file",
        "or connect as another user with -u",
        as_user("visitor", "-b", "-K", stdin=PASSWORD + "\n"),
        69,
        fix=edited('"visitor"', lambda _: '"sudoer"'),
    ),
    Row(
        "sudo that wants a terminal",
        AREA,
        "you must have a tty to run sudo",
        "add 'Defaults:USER !requiretty' with visudo on HOST",
        as_user("tty", "-b"),
        69,
        not_applied="the server's sudoers are read-only once it runs",
    ),
    Row(
        "home that is read-only",
        AREA,
        "cannot keep the files of ddp-play in /home/rohome/... Read-only file system",
        "or set ddp_state_dir for the host to a directory on a local disk",
        as_user("rohome"),
        69,
        fix=edited('"rohome"', lambda _: '"rohome",\n "ddp_state_dir": "/home/apart/rohome"'),
    ),
    Row(
        "Python of the host that is not there",
        AREA,
        "/usr/bin/python3.99: not found",
        "correct ansible_python_interpreter of HOST",
        as_user(ansible_python_interpreter="/usr/bin/python3.99"),
        69,
        fix=edited("python3.99", lambda _: "python3"),
    ),
    Row(
        "shared directory that this user cannot write to",
        AREA,
        "h1, h2: shared directory /usr/share: Permission denied",
        "let USER (uid ...) create files in ...",
        as_user(ddp_shared_dir="/usr/share"),
        69,
        fix=edited('"/usr/share"', lambda _: '"/home/apart"'),
    ),
)
