"""Hosts as people's accounts make them: login shells, start files that print, homes that forbid things, passwords."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.run import ssh_server
from tests.run.conftest import Play
from tests.run.ssh_server import SshServer, User

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.runner]

NOISE = "echo 'Welcome! {\"t\": \"state\"}'\nprintf 'no newline at the end'\necho 'it is Friday' >&2\n"
PASSWORD = 'correct horse\'s "battery" !$'


def shell(name: str) -> str:
    return shutil.which(name) or f"/bin/{name}"


USERS = {
    "sh": User("sh", "/bin/sh"),
    "dash": User("dash", shell("dash")),
    "bash": User("bash", shell("bash")),
    "noisybash": User("noisybash", shell("bash"), {".bashrc": NOISE, ".profile": NOISE}),
    "tcsh": User("tcsh", shell("tcsh")),
    "noisytcsh": User("noisytcsh", shell("tcsh"), {".tcshrc": "echo hello from tcsh\nset prompt = '%n! '\n"}),
    "fish": User("fish", shell("fish"), {".config/fish/config.fish": "echo hello from fish\n"}),
    "noexec": User("noexec", shell("bash"), mount="noexec,nosuid"),
    "rohome": User("rohome", shell("bash"), mount="ro"),
    "elsewhere": User("elsewhere", shell("tcsh"), mount="ro"),
    "tty": User("tty", "/bin/sh", sudoers="Defaults:tty requiretty\ntty ALL=(ALL) NOPASSWD: ALL"),
    "root2": User("root2", shell("tcsh"), sudoers="root2 ALL=(ALL) NOPASSWD: ALL"),
    "typed": User("typed", shell("bash"), password=PASSWORD),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    if reason := ssh_server.why_not():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("ssh") / "server"
    (directory.parent / "banner").write_text("Authorized use only.\nAll is logged!\n")
    settings = f"Banner {directory.parent}/banner\nPrintMotd yes\nMaxStartups 100\n"
    settings += "Match User elsewhere\nSetEnv DDP_PLAY_HOST_DIR=/home/apart/elsewhere\n"
    made = ssh_server.start(directory, list(USERS.values()), settings)
    yield made
    made.close()


def inventory(play: Play, hosts: dict[str, dict[str, Any]]) -> Path:
    return play.write("hosts.json", json.dumps({"all": {"children": {"ranks": {"hosts": hosts}}}}))


def command() -> list[str]:
    script = 'printf "rank %s of %s as %s with %s\\n" $RANK $WORLD_SIZE "$(id -un)" "$GREETING"'
    return ["sh", "-c", script]


LOGINS = ["sh", "dash", "bash", "noisybash", "tcsh", "noisytcsh", "fish", "noexec"]


@pytest.mark.parametrize("name", LOGINS)
def test_a_run_through_any_login_shell(play: Play, server: SshServer, name: str) -> None:
    if not Path(USERS[name].shell).exists():
        pytest.skip(f"{USERS[name].shell} is not installed")
    greeting = 'a b\'s "c" \\n ! $HOME `x`'
    job = play.job({"command": command(), "env": {"GREETING": greeting}})
    done = play("run", job, "-i", inventory(play, {"h1": server.host(name)}), "--ranks", "all")
    assert done.code == 0, done.err + done.out
    assert (play.newest() / "logs" / "rank-0.log").read_text() == f"rank 0 of 1 as {name} with {greeting}\n"
    assert server.left_behind(name) == []


def test_a_read_only_home_is_refused_with_what_helps(play: Play, server: SshServer) -> None:
    done = play("run", play.job({"command": command()}), "-i", inventory(play, {"h1": server.host("rohome")}))
    assert done.code == 69, done.err
    place = "/home/rohome/.local/state/ddp-play/host"
    assert f"cannot keep the files of ddp-play in {place}: Read-only file system. Run with become (-b)" in done.err
    assert "DDP_PLAY_HOST_DIR" in done.err


def test_a_read_only_home_with_another_directory_for_our_files(play: Play, server: SshServer) -> None:
    job = play.job({"command": command(), "env": {"GREETING": "hi"}})
    done = play("run", job, "-i", inventory(play, {"h1": server.host("elsewhere")}), "--ranks", "all")
    assert done.code == 0, done.err
    assert "h1:0: rank 0 of 1 as elsewhere with hi" in done.out


def test_requiretty_is_refused_with_the_line_that_helps(play: Play, server: SshServer) -> None:
    done = play("run", play.job({"command": command()}), "-i", inventory(play, {"h1": server.host("tty")}), "-b")
    assert done.code == 69, done.err
    assert "you must have a tty to run sudo" in done.err
    assert "add 'Defaults:USER !requiretty' with visudo on h1" in done.err


def test_become_through_tcsh(play: Play, server: SshServer) -> None:
    job = play.job({"command": command(), "env": {"GREETING": "hi"}})
    done = play("run", job, "-i", inventory(play, {"h1": server.host("root2")}), "-b", "--ranks", "all")
    assert done.code == 0, done.err
    assert server.left_behind("root2") == []
