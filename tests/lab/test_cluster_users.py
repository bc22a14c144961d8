"""Accounts with fixed numbers on real hosts: login with the key, what is refused, and what deprovision takes back."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, bare_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTS = ("h1", "h2")
# Everything of accounts that shadow-utils and the role write; sudo, because shadow is root's.
ACCOUNTS = "sudo sh -c 'cd /etc; cksum passwd* shadow* group* gshadow* subuid* subgid*; ls -la ddp-play 2>&1 || true'"
KEYS_OF_OPS = "cat ~/.ssh/authorized_keys"


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    with bare_lab(lab_home, "users", len(HOSTS)) as found:
        yield found


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key, with the public one beside it."""
    path = tmp_path_factory.mktemp("key") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "trainer", "-f", str(path)], check=True)
    return path


def play(lab: Lab, verb: str, key: Path, *words: str, uid: int = 2001) -> dict[str, Any]:
    """Report of a verb with the accounts of the site: one that is new, and ops, who is there already."""
    public = key.with_suffix(".pub").read_text().strip()
    ops = {"name": "ops", "uid": int(lab.on("h1", "id -u")), "gid": int(lab.on("h1", "id -g"))}
    accounts = [{"name": "trainer", "uid": uid, "groups": ["vision"], "keys": [public]}]
    accounts.append({**ops, "groups": ["vision"], "keys": [public]})
    site = {"cluster_users_groups": [{"name": "vision", "gid": 3000}], "cluster_users_accounts": accounts}
    given = ["-i", str(lab.inventory), "--tags", "cluster_users", "--json", "-e", json.dumps(site)]
    return dict(json.loads(lab.play(verb, *given, *words).stdout))


def cells(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {cell["host"]: cell for cell in report["cells"] if cell["role"] == "cluster_users"}


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {host: cell["status"] for host, cell in cells(report).items()}


def login(lab: Lab, key: Path, host: str, command: str) -> str:
    """Output of a command over a login of the new user, with its key only."""
    address = {row["name"]: row["addresses"][0] for row in lab.status()["hosts"]}[host]
    options = [
        "-F",
        "none",
        "-i",
        str(key),
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=10",
    ]
    checks = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    words = ["ssh", *options, *checks, f"trainer@{address}", command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_accounts_come_and_go(lab: Lab, key: Path) -> None:
    """The plan, two provisionings, logins, a uid that somebody took, deprovision. h2 has a group of the user's name."""
    lab.on("h2", "sudo groupadd --gid 2001 trainer")
    before = {host: (lab.on(host, ACCOUNTS), lab.on(host, KEYS_OF_OPS)) for host in HOSTS}
    planned = play(lab, "provision", key, "--check")
    assert "account trainer (uid 2001)" in json.dumps(planned)
    assert {host: (lab.on(host, ACCOUNTS), lab.on(host, KEYS_OF_OPS)) for host in HOSTS} == before

    assert statuses(play(lab, "provision", key)) == dict.fromkeys(HOSTS, "changed")
    for host in HOSTS:
        assert login(lab, key, host, "id -u; id -gn; id -Gn; pwd").split() == [
            *("2001", "trainer", "trainer", "vision", "/home/trainer"),
        ]
        assert "vision" in lab.on(host, "id -Gn ops").split()
    again = play(lab, "provision", key)
    assert statuses(again) == dict.fromkeys(HOSTS, "ok")
    assert again["num_changed"] == 0
    assert statuses(play(lab, "verify", key)) == dict.fromkeys(HOSTS, "ok")

    moved = play(lab, "provision", key, "--limit", "h2", uid=2002)
    assert statuses(moved)["h2"] == "failed"
    assert "account trainer has uid 2001 here, wanted 2002" in cells(moved)["h2"]["message"]

    gone = play(lab, "deprovision", key, "--limit", "all", "--yes")
    assert statuses(gone) == dict.fromkeys(HOSTS, "changed")
    assert {host: (lab.on(host, ACCOUNTS), lab.on(host, KEYS_OF_OPS)) for host in HOSTS} == before
    assert lab.on("h1", "sudo stat --format %u:%g /home/trainer") == "2001:2001"  # what people have stays


@pytest.mark.long
def test_a_lost_key_and_a_lost_membership_are_found_and_mended(lab: Lab, key: Path) -> None:
    play(lab, "provision", key)
    lab.on("h2", "sudo rm /home/trainer/.ssh/authorized_keys; sudo gpasswd --delete trainer vision")
    broken = play(lab, "verify", key)
    assert statuses(broken) == {"h1": "ok", "h2": "failed"}
    assert "missing: group vision: new member trainer, SSH keys of trainer" in cells(broken)["h2"]["message"]
    assert statuses(play(lab, "provision", key)) == {"h1": "ok", "h2": "changed"}
    assert login(lab, key, "h2", "id -Gn").split() == ["trainer", "vision"]
