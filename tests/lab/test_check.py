"""`ddp-play check` on hosts with nothing wrong, and with many defects at once: each is named, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests import schemas

from .check_runs import compare, defect_named, run_check, seeded

if TYPE_CHECKING:
    from .conftest import Lab

# Which do not disturb each other. The others, and each of these alone, are in test_check_defects.py.
TOGETHER = (
    "ports dropped one way",
    "own name is loopback",
    "name of a peer is wrong",
    "machine id twice",
    "address twice",
    "second default route",
    "fewer cpus",
    "small shared memory",
    "few open files",
    "few ephemeral ports",
    "another shared directory",
    "listener on a port of jobs",
    "reboot is pending",
)


def test_hosts_without_a_defect_pass_also_with_a_noisy_login(check_lab: Lab) -> None:
    check_lab.on("h2", "cp .bashrc .bashrc.kept; echo 'echo welcome to {h2}; echo {' >> .bashrc")
    try:
        assert run_check(check_lab) == (0, [])
    finally:
        check_lab.on("h2", "mv .bashrc.kept .bashrc")
    done = check_lab.play("check", "-i", str(check_lab.inventory), "--json")
    document = json.loads(done.stdout)
    schemas.check("check", document)
    assert document["hosts"] == ["h1", "h2", "h3"]
    assert "level quick" in done.stderr


def test_many_defects_at_once_are_all_named_and_gone_when_they_are_mended(check_lab: Lab) -> None:
    defects = tuple(map(defect_named, TOGETHER))
    with seeded(check_lab, *defects) as known:
        code, rows = run_check(check_lab)
        compare(rows, defects, known)
        assert code == 1
        shown = check_lab.play("check", "-i", str(check_lab.inventory))
    assert shown.returncode == 1
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("FAIL     ")
    assert "         h2 -> h1" in lines
    assert run_check(check_lab) == (0, [])


def test_a_host_that_cannot_be_asked_is_69(check_lab: Lab) -> None:
    done = check_lab.play("check", "-i", str(check_lab.inventory), "-i", "127.0.0.9,", "--limit", "h1,127.0.0.9")
    assert done.returncode == 69, done.stdout
    assert "FAIL     host reached          127.0.0.9: " in done.stdout
    assert check_lab.on("h1", "find /srv/ddp-play-shared -mindepth 1 ! -name .ddp-play") == ""
