"""What role slurm writes into PAM, and where it refuses to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.ddp.play.plugins.filter import slurm_login
from ansible_collections.ddp.play.plugins.module_utils import pam_block

ROLE = Path(__file__).parents[3] / "roles/slurm"
SSHD = "@include common-auth\naccount required pam_nologin.so\n@include common-account\n@include common-session\n"
ACCOUNT = "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\naccount requisite pam_deny.so\n"
GOOD = {"users": ["ops"], "groups": ["admins"], "cgroup": True, "connection": "ssh", "check": False}


def state(sshd: str = SSHD, account: str = ACCOUNT, session: str = "", **more: Any) -> dict[str, Any]:
    """A host; `more`: what sshd -T says, lines of getent, and whether a trial is open."""
    texts = zip((*slurm_login.STACKS, slurm_login.SESSIONS[1]), (sshd, account, session), strict=True)
    files = {path: {"type": "file", "content": text} for path, text in texts}
    files[slurm_login.UNPROVED] = {"type": "file" if more.get("unproved") else "absent", "content": ""}
    commands = {"sshd": {"stdout": more.get("sshd_t", "port 22\nusepam yes\npamservicename sshd")}}
    commands["login_groups"] = {"stdout": more.get("groups", "admins:x:1001:kim\nroot:x:0:")}
    return {"files": files, "commands": commands}


def test_the_role_reads_the_files_that_are_judged() -> None:
    paths = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__slurm_login_paths"]
    assert set(paths) == {*slurm_login.STACKS, *slurm_login.SESSIONS, slurm_login.UNPROVED}


def test_each_exemption_jumps_over_the_rest_of_the_block() -> None:
    _, *rows, last = slurm_login.lines({"users": ["kim", "ops"], "groups": ["admins"]})
    assert rows == [
        "account [success=4 default=ignore] pam_succeed_if.so quiet uid eq 0",
        "account [success=3 default=ignore] pam_succeed_if.so quiet user = kim",
        "account [success=2 default=ignore] pam_succeed_if.so quiet user = ops",
        "account [success=1 default=ignore] pam_succeed_if.so quiet user ingroup admins",
    ]
    assert last == "account required pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny"


@pytest.mark.parametrize(
    ("groups", "names"),
    [([], ["kim", "ops"]), (["admins"], ["ops"]), (["admins", "staff"], []), (["other"], ["kim", "ops"])],
)
def test_a_member_of_an_exempt_group_has_no_line(groups: list[str], names: list[str]) -> None:
    assert slurm_login.users({"kim": ["admins", "kim"], "ops": ["staff"]}, groups, state()) == names


def test_who_has_provisioned_before_keeps_the_line() -> None:
    written = slurm_login.lines({"users": ["ops"], "groups": ["admins"]})
    there = state(pam_block.with_block(SSHD, written))
    assert slurm_login.users({"kim": ["admins"]}, ["admins"], there) == ["ops"]
    assert slurm_login.users({"kim": []}, ["admins"], there) == ["kim", "ops"]
    assert slurm_login.users({}, [], state(pam_block.with_block(SSHD, written[:2]))) == []
    second = pam_block.with_block("", slurm_login.lines({"users": ["lee"], "groups": []}))
    twice = state(pam_block.with_block(SSHD, written) + second)  # a merge by hand
    assert slurm_login.users({"kim": []}, [], twice) == ["kim", "lee", "ops"]


def test_the_lines_that_are_written_are_those_of_the_block() -> None:
    assert slurm_login.written(state()) == []
    assert slurm_login.written(state(pam_block.with_block(SSHD, ["# a", "b"]))) == ["# a", "b"]


def test_root_alone_is_exempt_without_names() -> None:
    _, row, _ = slurm_login.lines({"users": [], "groups": []})
    assert row.startswith("account [success=1 default=ignore] pam_succeed_if.so quiet uid eq 0")


@pytest.mark.parametrize(
    ("sshd", "unproved", "wanted", "differs"),
    [
        (SSHD, False, [], False),
        (SSHD, False, ["a"], True),
        (pam_block.with_block(SSHD, ["a"]), False, ["a"], False),
        (pam_block.with_block(SSHD, ["a"]), True, ["a"], True),
        (pam_block.with_block(SSHD, ["a"]), False, ["b"], True),
        (pam_block.with_block(SSHD, ["a"]), False, [], True),
    ],
)
def test_drift(sshd: str, unproved: bool, wanted: list[str], differs: bool) -> None:
    assert slurm_login.drifted(state(sshd, unproved=unproved), wanted) == ([slurm_login.SSHD] if differs else [])


@pytest.mark.parametrize(
    ("sshd", "account", "line"),
    [
        (SSHD, ACCOUNT, ""),
        (SSHD + "# account required pam_slurm_adopt.so\n", ACCOUNT, ""),
        (pam_block.with_block(SSHD, [slurm_login.ADOPT]), ACCOUNT, ""),
        (
            SSHD + "-account required pam_slurm_adopt.so\n",
            ACCOUNT,
            "/etc/pam.d/sshd: -account required pam_slurm_adopt.so",
        ),
        (
            SSHD,
            ACCOUNT + "account required pam_slurm.so\n",
            "/etc/pam.d/common-account: account required pam_slurm.so",
        ),
    ],
)
def test_lines_of_the_site(sshd: str, account: str, line: str) -> None:
    assert slurm_login.foreign(state(sshd, account)) == line


@pytest.mark.parametrize(
    ("host", "settings", "problem"),
    [
        (state(), {}, ""),
        (state(), {"connection": "ansible.builtin.ssh"}, ""),
        (state(), {"cgroup": False}, "slurm_process_tracking has to be cgroup"),
        (state(), {"connection": "local"}, "cannot be proved over connection local"),
        (state(), {"groups": ["a b"], "check": True}, "'a b' cannot be written"),
        (state(), {"users": ["x]"]}, "'x]' cannot be written"),
        (state(), {"groups": ["admins", "staff"]}, "the host has no group staff"),
        (state(), {"groups": ["staff"], "check": True}, ""),
        (state(sshd_t="usepam no"), {}, "set UsePAM yes"),
        (state(sshd_t=""), {}, "set UsePAM yes"),
        (state(sshd_t="usepam yes\npamservicename ssh"), {}, "asks /etc/pam.d/ssh instead of /etc/pam.d/sshd"),
        (state(SSHD + pam_block.BEGIN + "\n"), {}, "without the other"),
        (state(account="account sufficient pam_localuser.so\n"), {}, "(account sufficient pam_localuser.so)"),
        (state(account="account [success=done default=bad] pam_x.so\n"), {}, "lets some users in before"),
        (state(account="#account sufficient pam_localuser.so\n"), {}, ""),
    ],
)
def test_problems(host: dict[str, Any], settings: dict[str, Any], problem: str) -> None:
    found = slurm_login.problems(host, {**GOOD, **settings})
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_a_host_without_the_file() -> None:
    host = state()
    host["files"][slurm_login.SSHD] = {"type": "absent", "content": ""}
    assert slurm_login.problems(host, GOOD) == [
        "/etc/pam.d/sshd is not a file: only OpenSSH's server with PAM is supported"
    ]


@pytest.mark.parametrize(
    ("session", "path"),
    [
        ("", ""),
        ("#session optional pam_systemd.so\n", ""),
        ("session\toptional\tpam_systemd.so\n", "/etc/pam.d/common-session"),
        ("-session optional pam_systemd.so\n", "/etc/pam.d/common-session"),
    ],
)
def test_sessions_that_leave_the_control_groups_of_the_job(session: str, path: str) -> None:
    assert slurm_login.leaving_sessions(state(session=session)) == path


def test_the_filters_have_their_names() -> None:
    assert {name for name in slurm_login.FilterModule().filters() if not name.startswith("slurm_login_")} == set()
