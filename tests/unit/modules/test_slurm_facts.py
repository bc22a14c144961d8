"""Facts for role slurm, from files and programs of a host."""

from __future__ import annotations

import grp
import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.modules import slurm_facts

from .stand_in import accepted, documented

if TYPE_CHECKING:
    from pathlib import Path

POLICY = "slurmd:\n  Installed: (none)\n  Candidate: %s\n  Version table:\n"


def write(root: Path, name: str, content: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content)


def programs(monkeypatch: pytest.MonkeyPatch, **answers: str) -> None:
    """Answers by program; another program is not installed."""

    def run(argv: list[str], timeout_s: int = 60) -> tuple[int, str, str]:
        assert timeout_s > 0
        return (0, answers[argv[0]], "") if argv[0] in answers else (127, "", "not found")

    monkeypatch.setattr(slurm_facts, "run", run)


def test_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, slurm_facts) == documented(slurm_facts)


def test_a_bare_host_has_empty_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs(monkeypatch)
    found = slurm_facts.gather({"packages": ["slurmd"], "resolve": ["n2"]}, tmp_path)
    assert found.pop("hostname")
    uids = found.pop("uids")
    assert set(uids) <= {"slurm", "munge"}
    assert "root" not in found.pop("logins")
    assert found == {
        "hardware": {}, "gpus": [], "cgroup": False, "key": "", "munge_before": False, "release": "", "conf": "",
        "gres": "", "jobs": [], "addresses": {"n2": []}, "pam_adopt_is_ours": False,
    }  # fmt: skip


def test_a_node_of_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, "etc/slurm/slurm.conf", "ClusterName=ddp\n")
    write(tmp_path, "etc/munge/munge.key", "secret")
    write(tmp_path, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    write(tmp_path, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: NVIDIA H100\nDevice Minor: 0\n")
    programs(
        monkeypatch,
        slurmd="NodeName=n1 CPUs=2 RealMemory=1000\n",
        squeue="7\n9\n",
        getent="10.1.0.2 STREAM n2\n",
        **{"apt-cache": POLICY % "22.05.9-1"},
    )
    found = slurm_facts.gather({"packages": ["slurmd"], "resolve": ["n2", "127.0.0.1"]}, tmp_path)
    assert (found["hardware"], found["jobs"]) == ({"CPUs": "2", "RealMemory": "1000"}, ["7", "9"])
    assert (found["gpus"], found["cgroup"]) == ([{"type": "h100", "minor": 0}], True)
    assert (found["key"], found["conf"]) == (hashlib.sha256(b"secret").hexdigest(), "ClusterName=ddp")
    assert (found["addresses"], found["release"]) == ({"n2": ["10.1.0.2"], "127.0.0.1": ["127.0.0.1"]}, "22.05")


@pytest.mark.parametrize(
    ("installed", "candidate", "release"),
    [("", "24.11.5-4", "24.11"), ("22.05.8-4\n", "24.11.5-4", "22.05"), ("", "(none)", "")],
)
def test_release_is_that_of_the_installed_package_or_of_the_next(
    monkeypatch: pytest.MonkeyPatch, installed: str, candidate: str, release: str
) -> None:
    programs(monkeypatch, **{"dpkg-query": installed, "apt-cache": POLICY % candidate})
    assert slurm_facts.release(["slurm-client", "slurmd"]) == release


@pytest.mark.parametrize(
    ("record", "before"),
    [
        ("", True),
        (json.dumps({"slurm": {"packages": ["slurmd"]}}), True),
        (json.dumps({"slurm": {"packages": ["munge", "slurmd"]}}), False),
        ("{", True),
        ("[]", True),
    ],
)
def test_munge_was_there_before_if_no_role_installed_it(tmp_path: Path, record: str, before: bool) -> None:
    assert slurm_facts.munge_before(tmp_path) is False
    write(tmp_path, "etc/munge/munge.key", "secret")
    if record:
        write(tmp_path, "etc/ddp-play/record.json", record)
    assert slurm_facts.munge_before(tmp_path) is before


@pytest.mark.parametrize(
    ("record", "ours"),
    [("", False), ("{", False), ({"packages": ["slurmd"]}, False), ({"packages": ["libpam-slurm-adopt"]}, True)],
)
def test_whether_a_removal_takes_the_module_of_pam_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: object, ours: bool
) -> None:
    programs(monkeypatch)
    write(tmp_path, "etc/ddp-play/record.json", record if isinstance(record, str) else json.dumps({"slurm": record}))
    assert slurm_facts.gather({"packages": [], "resolve": []}, tmp_path)["pam_adopt_is_ours"] is ours


@pytest.mark.parametrize(
    ("environment", "loginuid", "names"),
    [
        ({}, None, []),
        ({}, "0", []),
        ({}, "4294967295", []),
        ({}, "1", ["daemon"]),
        ({"SUDO_USER": "kim"}, "1", ["kim"]),
        ({"SUDO_USER": "root"}, None, []),
        ({"DOAS_USER": "kim"}, None, ["kim"]),
    ],
)
def test_who_has_logged_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str], loginuid: str | None, names: list[str]
) -> None:
    for name in ("SUDO_USER", "DOAS_USER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    if loginuid is not None:
        write(tmp_path, "proc/self/loginuid", loginuid)
    assert list(slurm_facts.logins(tmp_path)) == names


def test_groups_of_a_directory_that_lists_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """With sssd, getgrall has only local groups."""

    def by_number(gid: int) -> grp.struct_group:
        if gid == 7001:
            return grp.struct_group(("admins", "x", gid, []))
        raise KeyError(gid)

    monkeypatch.setattr("os.getgrouplist", lambda _name, _gid: [7001, 7002])
    monkeypatch.setattr("grp.getgrall", list)
    monkeypatch.setattr("grp.getgrgid", by_number)
    assert slurm_facts.groups_of("daemon") == ["admins"]


def test_the_user_as_whom_it_runs_must_log_in_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUDO_USER", "kim")
    monkeypatch.setattr("os.geteuid", lambda: 1)
    assert slurm_facts.logins(tmp_path) == {"daemon": ["daemon"], "kim": []}
