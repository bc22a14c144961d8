"""Secrets among a job's variables, with a real vault: the ranks get the values, and nobody else sees them."""

from __future__ import annotations

import hashlib
import json
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from tests.run import ssh_server
from tests.run.conftest import LOCAL, Done, Play
from tests.run.ssh_server import SshServer, User
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

SCALAR, IN_FILE, IN_CLEAR, BARE = "hunter-scalar-1", "hunter-file-2", "hunter-clear-3\n\n", "hunter-bare-4"
URL, BY_GLOB = "postgresql://train:hunter-url-5@db/runs", "hunter-glob-6"
WANTED = {
    "AS_IT_IS": SCALAR,
    "OF_A_FILE": IN_FILE,
    "PIN": "471100",
    "HEADER": f"Bearer {SCALAR}",
    "MODEL_API_KEY": IN_CLEAR,
    "DB_PASSWORD": BARE,
    "DATABASE_URL": URL,
    "SITE_CODE": BY_GLOB,
    "PLAIN": "visible",
}
ENV = {
    "AS_IT_IS": "{{ vault_scalar }}",
    "OF_A_FILE": "{{ vault_text }}",
    "PIN": "{{ vault_number }}",
    "HEADER": "Bearer {{ vault_scalar }}",
    "MODEL_API_KEY": IN_CLEAR,
    "DB_PASSWORD": None,
    "DATABASE_URL": URL,
    "SITE_CODE": BY_GLOB,
    "PLAIN": "visible",
}
SCRIPT = f"""import hashlib, os, time
for name in {sorted(WANTED)!r}:
    print(name, hashlib.sha256(os.environ[name].encode()).hexdigest(), flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
SECRETS = (SCALAR, IN_FILE, "471100", "hunter-clear-3", BARE, "hunter-url-5", BY_GLOB)


VAULT = VaultLib([("default", VaultSecret(b"open sesame"))])


@pytest.fixture
def vaulted(play: Play) -> list[str]:
    """The play's `vars_files`: one with a `!vault` scalar, one that is encrypted as a whole."""
    play.write("pw", "open sesame\n")
    whole = json.dumps({"vault_text": IN_FILE, "vault_number": 471100})
    play.write("whole.yml", VAULT.encrypt(whole).decode())
    play.write("scalar.yml", "vault_scalar: !vault |\n" + indent(VAULT.encrypt(SCALAR).decode(), "  "))
    play.environment["DB_PASSWORD"] = BARE
    return ["whole.yml", "scalar.yml"]


def job(play: Play, vars_files: list[str], variables: dict[str, Any]) -> Path:
    path = play.job(variables)
    document = json.loads(path.read_text())
    document[0]["vars_files"] = vars_files
    path.write_text(json.dumps(document))
    return path


def run(play: Play, verb: str, path: Path, *more: str) -> Done:
    return play(verb, path, "-i", LOCAL, "--vault-password-file", "pw", *more)


def seen_in(root: Path) -> list[tuple[str, str]]:
    """(file, secret) for every file below `root` that holds one."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return [(str(path), secret) for path in files for secret in SECRETS if secret.encode() in path.read_bytes()]


def test_ranks_get_the_values_and_nobody_else_sees_them(play: Play, vaulted: list[str]) -> None:
    play.write("code/own.py", SCRIPT)
    wanted: dict[str, Any] = {
        "source": "code",
        "command": "python own.py",
        "env": ENV,
        "ranks_per_host": 1,
        "restarts": 1,
    }
    wanted["secret_names"] = ["SITE_*"]
    path = job(play, vaulted, wanted)
    for done in (run(play, "plan", path), run(play, "plan", path, "--json")):
        assert done.code == 0, done.err
        assert not [secret for secret in SECRETS if secret in done.out + done.err]
        assert "visible" in done.out
        assert "a secret" in done.out
    done = run(play, "run", path, "-d", "--name", "own", "-v")
    assert done.code == 0, done.err
    log = play.home / "runs" / "own" / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") == len(WANTED), what="the rank has spoken")
    got = dict(line.split() for line in log.read_text().splitlines())
    assert got == {name: hashlib.sha256(value.encode()).hexdigest() for name, value in WANTED.items()}
    assert seen_in(play.host_dir) == []
    source = next(play.host_dir.rglob("own.py")).parent
    (source / "end").touch()
    ended = play("attach", "own")
    assert ended.code == 0, ended.err
    assert not [secret for secret in SECRETS if secret in ended.out + ended.err]
    assert seen_in(play.home) == []
    text = (play.home / "runs" / "own" / "env" / "rank-0.env").read_text()
    assert "PLAIN=visible" in text
    assert "# AS_IT_IS is a secret, which only the rank got (job: ddp_job_env, a secret)" in text


def test_a_vaulted_value_on_a_command_line_is_refused_and_not_shown(play: Play, vaulted: list[str]) -> None:
    path = job(play, vaulted, {"command": ["echo", "--token={{ vault_scalar }}"]})
    done = run(play, "run", path)
    assert done.code == 64, done.err
    assert "ddp_job_command holds a value from a vault" in done.err
    assert "ddp_job_secrets" in done.err
    assert SCALAR not in done.out + done.err
    assert seen_in(play.home) == []


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_secret_on_the_command_line_of_ddp_play_is_refused_and_not_stored(play: Play, verb: str) -> None:
    given = json.dumps({"ddp_job_secrets": {"TOKEN": SCALAR}})
    done = play(verb, play.job({"command": ["true"]}), "-i", LOCAL, "-e", given)
    assert done.code == 64, done.err
    assert "-e @FILE" in done.err
    assert SCALAR not in done.out + done.err
    assert seen_in(play.cwd.parent) == []


def over_ssh(play: Play, server: SshServer, vars_files: list[str], **more: str) -> Done:
    """A job on a host that is reached over SSH, with `more` variables of that host."""
    hosts = {"ranks": {"hosts": {"far": server.host("login", **more)}}}
    path = job(play, vars_files, {"command": ["true"], "ranks_per_host": 1})
    return play("run", path, "-i", play.write("hosts.json", json.dumps(hosts)), "--vault-password-file", "pw")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server.running(tmp_path / "server", [User("login", "/bin/sh")]) as made:
        yield made


def test_a_vaulted_value_in_connection_arguments_is_refused(play: Play, vaulted: list[str], server: SshServer) -> None:
    done = over_ssh(play, server, vaulted, ansible_ssh_extra_args="-o SetEnv=JUMP={{ vault_scalar }}")
    assert done.code == 69, done.err
    assert (
        "far: the arguments of its connection (such as ansible_ssh_common_args) contain a value from a vault"
        in done.err
    )
    assert "use an SSH key" in done.err
    assert SCALAR not in done.out + done.err
    assert seen_in(play.home) == []


def test_a_vaulted_user_name_is_shown(play: Play, vaulted: list[str], server: SshServer) -> None:
    play.write("login.yml", VAULT.encrypt(json.dumps({"vault_user": "login"})).decode())
    done = over_ssh(play, server, [*vaulted, "login.yml"], ansible_user="{{ vault_user }}")
    assert done.code == 0, done.err
