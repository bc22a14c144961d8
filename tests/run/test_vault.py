"""Secrets among a job's variables, with a real vault: the ranks get the values, and nobody else sees them."""

from __future__ import annotations

import hashlib
import json
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from tests.run.conftest import LOCAL, Done, Play
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

SCALAR, IN_FILE, IN_CLEAR, BARE = "hunter-scalar-1", "hunter-file-2", "hunter-clear-3\n\n", "hunter-bare-4"
WANTED = {
    "AS_IT_IS": SCALAR,
    "OF_A_FILE": IN_FILE,
    "PIN": "471100",
    "HEADER": f"Bearer {SCALAR}",
    "MODEL_API_KEY": IN_CLEAR,
    "DB_PASSWORD": BARE,
    "PLAIN": "visible",
}
ENV = {
    "AS_IT_IS": "{{ vault_scalar }}",
    "OF_A_FILE": "{{ vault_text }}",
    "PIN": "{{ vault_number }}",
    "HEADER": "Bearer {{ vault_scalar }}",
    "MODEL_API_KEY": IN_CLEAR,
    "DB_PASSWORD": None,
    "PLAIN": "visible",
}
SCRIPT = f"""import hashlib, os, time
for name in {sorted(WANTED)!r}:
    print(name, hashlib.sha256(os.environ[name].encode()).hexdigest(), flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
SECRETS = (SCALAR, IN_FILE, "471100", "hunter-clear-3", BARE)


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
    wanted = {"source": "code", "command": "python own.py", "env": ENV, "ranks_per_host": 1, "restarts": 1}
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
