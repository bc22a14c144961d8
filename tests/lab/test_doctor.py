"""`ddp-play doctor -i` on hosts of which each lacks something."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from .rank_jobs import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab

BREAK = {
    "h1": "sudo systemctl stop docker.socket docker",
    "h2": "sudo mount -t tmpfs -o mode=0755 none " + SHARED,
    "h3": "sudo cp /etc/sudoers.d/ops /root/ops.kept; echo 'ops ALL=(ALL) ALL' | sudo tee /etc/sudoers.d/ops",
}
MEND = {
    "h1": "sudo systemctl start docker",
    "h2": f"sudo umount {SHARED}",
    "h3": "cp /root/ops.kept /etc/sudoers.d/ops && rm /root/ops.kept",
}


@pytest.fixture
def broken(lab3: Lab) -> Iterator[Lab]:
    """No engine on h1, a shared directory that nobody may write to on h2, sudo with a password on h3."""
    try:
        for host, command in BREAK.items():
            lab3.on(host, command)
        yield lab3
    finally:
        for host, command in MEND.items():
            lab3.on(host, command, user="root" if host == "h3" else "ops")


def findings(lab: Lab, *options: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit code and findings about hosts that are not ok, by check."""
    done = lab.play("doctor", "--json", *options)
    rows = [row for row in json.loads(done.stdout)["findings"] if row["where"] != ["controller"]]
    assert rows, done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["status"] != "ok":
            found.setdefault(row["check"], []).append(row)
    return done.returncode, found


def test_hosts_that_lack_nothing_have_no_finding(lab3: Lab) -> None:
    assert findings(lab3, "-i", str(lab3.inventory))[1] == {}


def test_each_host_is_named_with_what_it_lacks(broken: Lab, tmp_path: Path) -> None:
    code, found = findings(broken, "-i", str(broken.inventory))
    assert code == 1
    assert {check: [row["where"] for row in rows] for check, rows in found.items()} == {
        "engine": [["h1"]],
        "shared directory": [["h2"]],
        "root rights": [["h3"]],
    }
    assert found["engine"][0]["command"] == f"ddp-play provision -i {broken.inventory} --limit h1"

    gone = tmp_path / "gone.ini"
    gone.write_text("[ranks]\nh9 ansible_host=127.0.0.1 ansible_port=9 ansible_ssh_retries=0\n")
    code, found = findings(broken, "-i", str(broken.inventory), "-i", str(gone))
    assert code == 69
    assert [row["where"] for row in found["host reached"]] == [["h9"]]
    assert "Connection refused" in found["host reached"][0]["value"]
    assert found["host reached"][0]["command"]
    assert [row["where"] for row in found["shared directory"]] == [["h2"]]
