"""Logins whose processes logind ends, told by a busctl and a systemd-run on PATH that answer as the real ones do."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import attempt_preparation, guard_start, login_session
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, user_name, write_json

if TYPE_CHECKING:
    from pathlib import Path

USER = "kim"
NOTHING = "as 0", 'as 1 "root"'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("b true", *NOTHING), True),
        (("b false", *NOTHING), False),
        (("b true", "as 0", 'as 2 "root" "kim"'), False),
        (("b true", 'as 1 "lee"', "as 0"), False),
        (("b false", 'as 2 "lee" "kim"', "as 0"), True),
        ((), False),
    ],
)
def test_whose_processes_logind_kills(lines: tuple[str, ...], expected: bool) -> None:
    assert login_session.kills(list(lines), USER) is expected


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An SSH login of an ordinary user on a host with KillUserProcesses=yes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    answers = 'b true\\nas 0\\nas 1 "root"\\n'
    (programs / "busctl").write_text(f"#!/bin/sh\nprintf '{answers}'\n")
    (programs / "busctl").chmod(0o755)
    cgroup = tmp_path / "cgroup"
    cgroup.write_text("0::/user.slice/user-1000.slice/session-7.scope\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(login_session, "CGROUP", cgroup)
    monkeypatch.setattr(login_session, "LINGER", tmp_path / "linger")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    return tmp_path


def test_a_host_that_would_end_the_ranks_at_logout_is_refused_by_name(login: Path) -> None:
    assert login_session.ends_at_logout()
    with pytest.raises(Refused, match="KillUserProcesses=yes") as refused:
        attempt_preparation.prepare(HostRun(login / "runs" / "r1" / "1.h1"), {}, {}, {})
    assert refused.value.hint == f"on the host: loginctl enable-linger {user_name(12345)}; or use become (-b)"


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n",  # of the user manager
        "0::/system.slice/ssh.service\n",  # sshd without PAM
        "0::/\n",
    ],
)
def test_other_logins_are_not_asked_about(login: Path, cgroup: str) -> None:
    login_session.CGROUP.write_text(cgroup)
    assert not login_session.ends_at_logout()


def test_a_host_without_logind_ends_nothing(login: Path) -> None:
    (login / "bin" / "busctl").write_text("#!/bin/sh\nexit 1\n")
    assert not login_session.ends_at_logout()
    assert not attempt_preparation._check_logout()


def test_a_logind_that_does_not_answer_is_a_refusal(login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end the guard and the ranks with the controller's connection."""
    (login / "bin" / "busctl").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(login_session, "TIMEOUT_S", 0.2)
    with pytest.raises(Refused, match=r"logind did not answer within 0\.2 s") as refused:
        attempt_preparation.prepare(HostRun(login / "runs" / "r1" / "1.h1"), {}, {}, {})
    assert "become (-b)" in refused.value.hint


def test_root_is_not_affected(login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not login_session.ends_at_logout()


def test_with_linger_the_guard_is_a_unit_of_the_user(login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user manager stays after the last logout, and what it starts is in no session."""
    (login / "linger").mkdir()
    (login / "linger" / user_name(12345)).touch()
    assert attempt_preparation._check_logout()
    (login / "bin" / "busctl").write_text("#!/bin/sh\nexit 1\n")  # asked once
    program = login / "bin" / "systemd-run"
    place = HostRun(login / "runs" / "r1" / "1.h1")
    place.root.mkdir(parents=True)
    write_json(login / "answer", {"phase": "prepared", "guard_pid": 1})
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {login}/words\necho "$XDG_RUNTIME_DIR" > {login}/runtime\n'
        f"cp {login}/answer {place.state}\n"
    )
    program.chmod(0o755)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/12345/docker.sock")
    assert guard_start.start_guard(place, ends_at_logout=True)["guard_pid"] == 1
    words = (login / "words").read_text().splitlines()
    assert words[0] == "--user"
    assert "--setenv=DOCKER_HOST=unix:///run/user/12345/docker.sock" in words
    assert words[words.index("--") + 1 :][:3] == [sys.executable, "-I", "-S"]
    assert (login / "runtime").read_text() == "/run/user/12345\n"
