"""Hosts as people's accounts make them: login shells, start files that print, homes that forbid things, passwords."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.run import ssh_server
from tests.run.conftest import Play, living, wait_until
from tests.run.ssh_server import SshServer, User
from tests.run.test_outcomes import controller_processes

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
    job = play.job({"ranks_per_host": 1, "command": command(), "env": {"GREETING": greeting}})
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
    job = play.job({"ranks_per_host": 1, "command": command(), "env": {"GREETING": "hi"}})
    done = play("run", job, "-i", inventory(play, {"h1": server.host("elsewhere")}), "--ranks", "all")
    assert done.code == 0, done.err
    assert "h1:0: rank 0 of 1 as elsewhere with hi" in done.out


def test_requiretty_is_refused_with_the_line_that_helps(play: Play, server: SshServer) -> None:
    done = play("run", play.job({"command": command()}), "-i", inventory(play, {"h1": server.host("tty")}), "-b")
    assert done.code == 69, done.err
    assert "you must have a tty to run sudo" in done.err
    assert "add 'Defaults:USER !requiretty' with visudo on h1" in done.err


def test_become_through_tcsh(play: Play, server: SshServer) -> None:
    job = play.job({"ranks_per_host": 1, "command": command(), "env": {"GREETING": "hi"}})
    done = play("run", job, "-i", inventory(play, {"h1": server.host("root2")}), "-b", "--ranks", "all")
    assert done.code == 0, done.err
    assert server.left_behind("root2") == []


def typed(server: SshServer) -> dict[str, Any]:
    """A host that accepts a password only."""
    return {**server.host("typed"), "ansible_ssh_private_key_file": "/nowhere/no-key"}


WAITS = ["sh", "-c", 'echo started; while [ ! -e "$0" ]; do sleep 0.1; done; echo ended', "/home/apart/go-on"]


@pytest.fixture
def release(server: SshServer) -> Iterator[Path]:
    """The file that lets the rank of a test end; there when the test has ended."""
    path = Path(f"/proc/{server.process.pid}/root/home/apart/go-on")
    path.unlink(missing_ok=True)
    yield path
    path.touch()


def begin(play: Play, server: SshServer, name: str) -> subprocess.Popen[str]:
    """A run whose rank has started, and the file that lets it end."""
    job = play.job({"ranks_per_host": 1, "command": WAITS})
    child = play.start(
        "run", job, "-i", inventory(play, {"h1": typed(server)}), "-k", "--name", name, stdin=subprocess.PIPE
    )
    assert child.stdin is not None
    with child.stdin as line:
        line.write(PASSWORD + "\n")
    child.stdin = None
    log = play.home / "runs" / name / "logs" / "rank-0.log"
    wait_until(lambda: child.poll() is not None or (log.exists() and "started" in log.read_text()))
    assert child.poll() is None, child.communicate()
    return child


def lose_controller(play: Play, server: SshServer) -> None:
    """Nobody supervises the run any more, and no connection to the host is left."""
    for pid in controller_processes(play):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not play("ps", "--json").json["runs"][0]["attended"])
    server.cut()


def nowhere_stored(play: Play) -> None:
    """The password is in no file of the run and in no command line or environment."""
    for path in (*play.home.rglob("*"), *play.cwd.rglob("*")):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path
    assert living(PASSWORD) == []


def test_a_host_with_a_password_is_reached_again_after_a_cut(play: Play, server: SshServer, release: Path) -> None:
    child = begin(play, server, "cut")
    nowhere_stored(play)
    assert server.cut() > 0
    wait_until(lambda: "back" in (play.home / "runs/cut/events.jsonl").read_text(), timeout_s=40)
    nowhere_stored(play)
    release.touch()
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "ended" in out


def test_attach_asks_for_the_password_again(play: Play, server: SshServer, release: Path) -> None:
    begin(play, server, "taken-over")
    lose_controller(play, server)
    refused = play("attach", "taken-over")
    assert refused.code == 64, refused.err
    assert "logs in with a password (h1)" in refused.err
    assert "ddp-play attach taken-over -k" in refused.err
    again = play.start("attach", "taken-over", "-k", stdin=subprocess.PIPE)
    release.touch()
    out, err = again.communicate(PASSWORD + "\n", timeout=60)
    assert again.returncode == 0, err + out
    nowhere_stored(play)


def test_a_wrong_password_at_attach_is_refused_once_and_does_not_end_the_run(
    play: Play, server: SshServer, release: Path
) -> None:
    begin(play, server, "mistyped")
    lose_controller(play, server)
    before = server.log.count("Failed password")
    again = play.start("attach", "mistyped", "-k", stdin=subprocess.PIPE)
    _out, err = again.communicate("wrong\n", timeout=120)
    assert again.returncode == 64, err
    assert "h1 refuses the SSH password" in err
    assert "Permission denied" in err
    assert server.log.count("Failed password") - before == 1
    release.touch()
    right = play.start("attach", "mistyped", "-k", stdin=subprocess.PIPE)
    _out, err = right.communicate(PASSWORD + "\n", timeout=60)
    assert right.returncode == 0, err
