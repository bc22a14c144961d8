"""Findings about a controller: one that lacks nothing, and one thing missing after the other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.checks.controller_facts import ControllerFacts, Directory, Package
from ddp_play.checks.controller_findings import judge
from ddp_play.checks.finding import Status

HOME = Directory("/home/kim/.local/state/ddp-play", True, 0o700, True, "", 50_000, 100_000)
GOOD = ControllerFacts(
    ssh="OpenSSH_9.2p1",
    agent_keys=1,
    keys=(("/home/kim/.ssh/id_ed25519", 0o600),),
    engine_problem="",
    engine_hint="",
    debian_problem="",
    debian_hint="",
    home=HOME,
    shm=Directory("/dev/shm", True, 0o1777, False, "", 1000, 1000),
    nofile=(1024, 524288),
    nproc=-1,
    encoding="utf-8",
    locale_problem="",
    python="3.12.1",
    python_required=">=3.11",
    python_fits=True,
    packages=(Package("ansible", "12.3.0", ">=12,<15", True),),
    playbook_program="/venv/bin/ansible-playbook",
    own_programs="/venv/bin",
    collection="/venv/lib/ansible_collections/ddp/play",
    collection_problem="",
    control_directory="/home/kim/.ansible/cp",
    ignored_config="",
    exposed_config="",
    synchronized=True,
    behind_package_s=0.0,
)
LOOSE = (("/home/kim/.ssh/id_rsa", 0o644),)


def home(**changes: Any) -> dict[str, Any]:
    return {"home": dataclasses.replace(HOME, **changes)}


def test_a_controller_that_lacks_nothing() -> None:
    assert {row.check: row.status for row in judge(GOOD) if row.status is not Status.OK} == {}


@pytest.mark.parametrize(
    ("changes", "check", "status", "words"),
    [
        ({"ssh": ""}, "ssh client", Status.FAIL, "apt-get install openssh-client"),
        ({"ssh": None}, "ssh client", Status.UNCHECKED, "no answer"),
        ({"agent_keys": None, "keys": ()}, "ssh login", Status.WARN, "ssh-keygen -t ed25519"),
        ({"keys": LOOSE}, "ssh keys", Status.FAIL, "chmod 600 /home/kim/.ssh/id_rsa"),
        ({"control_directory": "/h" * 40}, "ssh control path", Status.FAIL, "ANSIBLE_SSH_CONTROL_PATH_DIR"),
        (home(problem="Permission denied"), "state directory", Status.FAIL, "DDP_PLAY_HOME"),
        (home(mode=0o770), "state directory", Status.FAIL, "chmod 700"),
        (home(mode=0o755), "state directory", Status.WARN, "chmod 700"),
        (home(free_mib=50), "disk space", Status.FAIL, "df -h"),
        (home(free_mib=500), "disk space", Status.WARN, "df -h"),
        (home(free_files=3), "disk space", Status.FAIL, "df -i"),
        (home(free_mib=None, problem="Stale file handle"), "disk space", Status.UNCHECKED, "Stale file handle"),
        ({"shm": None}, "/dev/shm", Status.WARN, "mount -t tmpfs"),
        ({"shm": dataclasses.replace(HOME, problem="full")}, "/dev/shm", Status.FAIL, "df -h /dev/shm"),
        ({"nofile": (256, 256)}, "open files", Status.WARN, "nofile"),
        ({"nproc": 100}, "processes", Status.WARN, "nproc"),
        ({"encoding": "iso8859-1"}, "locale", Status.FAIL, "LC_ALL=C.UTF-8"),
        ({"locale_problem": "unsupported locale setting"}, "locale", Status.FAIL, "unsupported"),
        ({"python_fits": False}, "Python", Status.FAIL, ">=3.11"),
        ({"packages": ()}, "packages", Status.UNCHECKED, "does not say"),
        ({"packages": (Package("ansible", "", ">=12", False),)}, "packages", Status.FAIL, "ansible missing"),
        ({"playbook_program": ""}, "ansible-playbook", Status.FAIL, "not found"),
        ({"playbook_program": "/usr/bin/ansible-playbook"}, "ansible-playbook", Status.FAIL, "PATH=/venv/bin:$PATH"),
        ({"collection_problem": "another build"}, "collection", Status.FAIL, "ansible-galaxy collection list"),
        ({"ignored_config": "/tmp/ansible.cfg"}, "ansible.cfg", Status.WARN, "chmod o-w /tmp"),
        ({"exposed_config": "/tmp/ansible.cfg"}, "ansible.cfg", Status.FAIL, "chmod o-w /tmp"),
        ({"synchronized": None}, "clock", Status.UNCHECKED, "timedatectl"),
        ({"synchronized": False}, "clock", Status.WARN, "set-ntp"),
        ({"behind_package_s": 900.0}, "clock", Status.FAIL, "900 s behind"),
        ({"behind_package_s": 900.0, "synchronized": None}, "clock", Status.FAIL, "date --set"),
        (
            {"debian_problem": "debootstrap is not installed", "debian_hint": "apt-get install debootstrap"},
            "Debian for images",
            Status.WARN,
            "apt-get install debootstrap",
        ),
        ({"engine_problem": "no", "engine_hint": "start it"}, "container engine", Status.WARN, "start it"),
    ],
)
def test_one_thing_missing(changes: dict[str, Any], check: str, status: Status, words: str) -> None:
    bad = [row for row in judge(dataclasses.replace(GOOD, **changes)) if row.status is not Status.OK]
    found = next(row for row in bad if row.check == check)
    assert found.status is status
    assert words in f"{found.value} {found.command}"
    assert bool(found.why and found.command) or status is Status.UNCHECKED
