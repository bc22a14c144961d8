"""A new host with two defects: provisioned, refused with both named, mended, released, and used by a job.

Quarantine and release are tested with it: they are the same marks.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .check_runs import defect_named, seeded
from .conftest import Lab, bare_lab
from .rank_jobs import fresh, job

if TYPE_CHECKING:
    from collections.abc import Iterator

MTU, FILES = defect_named("mtu"), defect_named("few open files")
MARK = "/var/lib/ddp-play-quarantine.json"
RECORD = "/etc/ddp-play/record.json"


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine; h1 and h3 are in use already."""
    with bare_lab(lab_home, "acceptance", 3) as lab:
        groups(lab).write_text("[without_docker]\nh1\nh2\nh3\n")
        done = play(lab, "provision", "--limit", "h1,h3", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["acceptance"]["accepted"] == ["h1", "h3"]
        yield lab


def groups(lab: Lab) -> Path:
    """A file with groups that the lab's own inventory does not have."""
    return lab.inventory.with_name("groups.ini")


def inventory(lab: Lab) -> tuple[str, ...]:
    """Options for the hosts and their groups."""
    return ("-i", str(lab.inventory), "-i", str(groups(lab)))


def play(lab: Lab, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A verb on these hosts, over new logins: limits are those of a login."""
    with tempfile.TemporaryDirectory(prefix="cp-") as sockets:
        environment = {**lab.environment, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        return lab.play(verb, *words, *inventory(lab), environment=environment, timeout_s=600)


def check(lab: Lab, *options: str) -> tuple[int, dict[str, Any], str]:
    done = play(lab, "check", "--json", *options)
    return done.returncode, json.loads(done.stdout), done.stderr


def run_on(lab: Lab, tmp_path: Path, hosts: Any) -> tuple[int, str]:
    """Exit code and output of a job that needs so many hosts."""
    variables = {"image": "", "runtime": "process", "env": {}, "command": ["true"], "hosts": hosts, "backend": "gloo"}
    path = job(tmp_path, variables)
    done = play(lab, "run", path, "--name", fresh("first"))
    return done.returncode, done.stdout + done.stderr


def seen(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["host"], row["result"]) for row in rows]


def test_a_new_host_with_two_defects_is_refused_mended_and_accepted(lab: Lab, tmp_path: Path) -> None:
    with seeded(lab, MTU, FILES):
        done = play(lab, "provision", "--limit", "h2")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "h2 was provisioned, and failed the acceptance; in quarantine: runs leave it out" in done.stderr
        for words in ("FAIL     mtu", "FAIL     open files", "quarantined  h2: no new runs of anybody: "):
            assert words in done.stdout, done.stdout
        mark = json.loads(lab.on("h2", f"cat {MARK}"))
        assert (sorted(mark["checks"]), mark["num_hosts"]) == (["mtu", "open files"], 3)
        assert lab.on("h2", f"stat -c '%U %a' {MARK}") == "root 644"

        code, text = run_on(lab, tmp_path, "1..")
        assert code == 0, text
        assert "in quarantine since" in text
        code, text = run_on(lab, tmp_path, 3)
        assert code == 69, text
        assert f"mend it, then: ddp-play check {' '.join(inventory(lab))} --release -b" in text

        code, found, _ = check(lab, "-b", "--release")
        assert (code, seen(found["quarantine"]["hosts"])) == (1, [("h2", "stays")])
    code, found, _ = check(lab, "--release")
    assert "root put it there for everybody" in found["quarantine"]["hosts"][0]["why"]
    code, found, _ = check(lab, "-b", "--release", "--limit", "h2")
    assert "now 1 answered, and 3 are needed" in found["quarantine"]["hosts"][0]["why"]
    code, found, text = check(lab, "-b", "--release")
    assert (code, seen(found["quarantine"]["hosts"])) == (0, [("h2", "released")]), text
    code, text = run_on(lab, tmp_path, 3)
    assert code == 0, text
    again = play(lab, "provision", "--limit", "h2", "--json")
    assert (again.returncode, "acceptance" in json.loads(again.stdout)) == (0, False)


def test_what_somebody_decided_by_hand_is_not_undone(lab: Lab, tmp_path: Path) -> None:
    by_hand = {"reason": "its fan is loud", "by": "kim", "controller": "login1", "since": 0.0}
    lab.on("h3", f"echo '{json.dumps(by_hand)}' > {MARK}", user="root")
    try:
        code, found, _ = check(lab, "-b", "--release")
        assert (code, seen(found["quarantine"]["hosts"])) == (1, [("h3", "stays")])
        hint = found["quarantine"]["hosts"][0]["hint"]
        assert hint == f"ansible h3 {' '.join(inventory(lab))} -b -m ddp.play.host_quarantine -a state=released"
        code, text = run_on(lab, tmp_path, "1..")
        assert (code, "its fan is loud" in text) == (0, True), text
    finally:
        lab.on("h3", f"rm {MARK}", user="root")


def test_a_user_without_root_keeps_only_the_own_runs_away(lab: Lab, tmp_path: Path) -> None:
    with seeded(lab, FILES):
        code, found, _ = check(lab, "--quarantine")
        assert (code, seen(found["quarantine"]["hosts"])) == (1, [("h2", "quarantined")])
        assert found["quarantine"]["hosts"][0]["own"]
    assert lab.on("h2", f"test -e {MARK} || stat -c %U .local/state/ddp-play/host/quarantine-own.json") == "ops"
    code, text = run_on(lab, tmp_path, 3)
    assert (code, "in quarantine for the own runs of this user" in text) == (69, True), text
    code, found, _ = check(lab, "-b")
    assert not [row for row in found["findings"] if row["check"] == "takes runs" and row["result"] == "warn"]
    code, found, _ = check(lab, "--release")
    assert (code, seen(found["quarantine"]["hosts"])) == (0, [("h2", "released")])


def test_when_all_fail_nobody_is_put_into_quarantine(lab: Lab) -> None:
    every = [
        replace(FILES, seed=FILES.seed.replace("{h2}", name), mend=FILES.mend.replace("{h2}", name))
        for name in ("{h1}", "{h2}", "{h3}")
    ]
    with seeded(lab, *every):
        code, found, text = check(lab, "-b", "--quarantine")
    assert code == 69, text
    assert found["quarantine"] == {"broken": "all 3 hosts failed: the test or the network is broken", "hosts": []}
    for host in ("h1", "h2", "h3"):
        assert lab.on(host, f"ls {MARK} 2>/dev/null; true") == ""
