"""Hosts as people's accounts make them: login shells, start files that print, homes that forbid things, passwords."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.endings import kill_each
from tests.run import ssh_server
from tests.run.conftest import Play, living
from tests.run.ssh_server import SshServer, User
from tests.run.test_outcomes import controller_processes
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.runner]

NOISE = "echo 'Welcome! {\"t\": \"state\"}'\nprintf 'no newline at the end'\necho 'it is Friday' >&2\n"
PASSWORD = 'correct horse\'s "battery" !$'


def shell(name: str) -> str:
    return shutil.which(name) or f"/bin/{name}"


USERS = {
    "dash": User("dash", shell("dash")),
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
    directory = tmp_path_factory.mktemp("ssh") / "server"
    (directory.parent / "banner").write_text("Authorized use only.\nAll is logged!\n")
    settings = f"Banner {directory.parent}/banner\nPrintMotd yes\nMaxStartups 100\n"
    settings += "Match User elsewhere\nSetEnv DDP_PLAY_HOST_DIR=/home/apart/elsewhere\n"
    with ssh_server.running(directory, list(USERS.values()), settings) as made:
        yield made


def inventory(play: Play, hosts: dict[str, dict[str, Any]]) -> Path:
    return play.write("hosts.json", json.dumps({"all": {"children": {"ranks": {"hosts": hosts}}}}))


def command() -> list[str]:
    script = 'printf "rank %s of %s as %s with %s\\n" $RANK $WORLD_SIZE "$(id -un)" "$GREETING"'
    return ["sh", "-c", script]


LOGINS = ["dash", "noisybash", "tcsh", "noisytcsh", "fish", "noexec", "elsewhere", "root2"]


def test_one_run_through_every_login_shell(play: Play, server: SshServer) -> None:
    """Each login is a host of the run; the program of `root2` is root by sudo, the home of `elsewhere` is read-only."""
    names = [name for name in LOGINS if Path(USERS[name].shell).exists()]
    hosts = {name: server.host(name) for name in names}
    if "root2" in hosts:
        hosts["root2"]["ansible_become"] = True  # its rank runs as the user of the login nevertheless
    greeting = 'a b\'s "c" \\n ! $HOME `x`'
    job = play.job({"ranks_per_host": 1, "command": command(), "env": {"GREETING": greeting}})
    done = play("run", job, "-i", inventory(play, hosts), "--ranks", "all")
    assert done.code == 0, done.err + done.out
    logs = [(play.newest() / "logs" / f"rank-{rank}.log").read_text() for rank in range(len(names))]
    size = len(names)
    assert logs == [f"rank {rank} of {size} as {name} with {greeting}\n" for rank, name in enumerate(names)]
    assert [name for name in names if server.left_behind(name)] == []
    if missing := [name for name in LOGINS if name not in names]:
        pytest.skip(f"the other logins passed; not installed here: the shells of {', '.join(missing)}")


def test_logins_that_cannot_be_used_are_refused_with_what_helps(play: Play, server: SshServer) -> None:
    """A read-only home, and a sudo that wants a terminal."""
    hosts = {"rohome": server.host("rohome"), "tty": {**server.host("tty"), "ansible_become": True}}
    done = play("run", play.job({"command": command()}), "-i", inventory(play, hosts))
    assert done.code == 69, done.err
    place = "/home/rohome/.local/state/ddp-play/host"
    assert f"cannot keep the files of ddp-play in {place}: Read-only file system. Run with become (-b)" in done.err
    assert "ddp_state_dir" in done.err
    assert "you must have a tty to run sudo" in done.err
    assert "add 'Defaults:USER !requiretty' with visudo on tty" in done.err


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
    kill_each(controller_processes(play))
    wait_until(lambda: not play("ps", "--json").json["runs"][0]["attended"])
    server.cut()


def nowhere_stored(play: Play) -> None:
    """The password is in no file of the run and in no command line or environment."""
    for path in (*play.home.rglob("*"), *play.cwd.rglob("*")):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path
    assert living(PASSWORD) == []


def test_a_password_survives_a_cut_and_attach_asks_for_it_again(play: Play, server: SshServer, release: Path) -> None:
    child = begin(play, server, "typed")
    nowhere_stored(play)
    assert server.cut() > 0
    wait_until(lambda: "back" in (play.home / "runs/typed/events.jsonl").read_text(), timeout_s=40)
    nowhere_stored(play)
    lose_controller(play, server)
    child.wait(timeout=30)
    refused = play("attach", "typed")
    assert refused.code == 64, refused.err
    assert "logs in with a password (h1)" in refused.err
    assert "ddp-play attach typed -k" in refused.err
    before = server.log.count("Failed password")
    code, _out, err = typing(play, "wrong", "attach", "typed", "-k")
    assert code == 64, err
    assert "h1 refuses the SSH password" in err
    assert "Permission denied" in err
    assert server.log.count("Failed password") - before == 1, "one try, and the run was not changed"
    release.touch()
    code, out, err = typing(play, PASSWORD, "attach", "typed", "-k")
    assert code == 0, err + out
    assert "ended" in (play.home / "runs/typed/logs/rank-0.log").read_text()
    nowhere_stored(play)


def test_stop_asks_for_the_password_too(play: Play, server: SshServer, release: Path) -> None:
    """It had no -k: a run that logs in with a password could not be stopped after its controller died."""
    child = begin(play, server, "told")
    lose_controller(play, server)
    child.wait(timeout=30)
    refused = play("stop", "told")
    assert refused.code == 64, refused.err
    assert "ddp-play stop told -k" in refused.err
    assert not list((play.home / "runs" / "told" / "control").glob("stop*")), "the run was not changed"
    code, _out, err = typing(play, PASSWORD, "stop", "told", "-k", "--now")
    assert code == 0, err
    assert play("ps", "--json").json["runs"][0]["status"] == "stopped"
    nowhere_stored(play)


def typing(play: Play, password: str, *words: str) -> tuple[int, str, str]:
    """A command with this answer to its question: exit code, output, errors."""
    child = play.start(*words, stdin=subprocess.PIPE)
    out, err = child.communicate(f"{password}\n", timeout=90)
    return child.returncode, out, err
