"""The guards of conftest.py themselves: each must bite."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookRequest
from ddp_play.bundle import paths
from ddp_play.errors import UsageError
from tests.conftest import REAL_STATE, is_local

Failed = pytest.fail.Exception


def test_loopback_and_unix_sockets_are_allowed(tmp_path: Path) -> None:
    for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, str(tmp_path / "s"))):
        with socket.socket(family) as server, socket.socket(family) as client:
            server.bind(address)
            server.listen(1)
            client.connect(server.getsockname())


def test_no_connection_leaves_this_machine() -> None:
    with socket.socket() as sock, pytest.raises(Failed, match=r"network connection to \('192\.0\.2\.1', 80\)"):
        sock.connect(("192.0.2.1", 80))
    with pytest.raises(Failed, match=r"looks up example\.com"):
        socket.create_connection(("example.com", 80))


@pytest.mark.parametrize(
    ("address", "local"), [("localhost", True), ("127.1.2.3", True), ("::1", True), ("10.0.0.1", False), ("h", False)]
)
def test_what_counts_as_local(address: str, local: bool) -> None:
    assert is_local(address) is local


@pytest.mark.parametrize("root", REAL_STATE)
def test_the_real_state_is_out_of_reach(root: str) -> None:
    with pytest.raises(Failed, match="real state directory"):
        paths.read_json(Path(root, "runs", "x", "run.json"))
    with pytest.raises(Failed, match="real state directory"):
        os.mkdir(root + "/x")  # noqa: PTH102 - the call that is watched


def test_home_is_a_directory_of_the_test(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    assert paths.home().is_relative_to(base)
    assert Path("~").expanduser().is_relative_to(base)


@pytest.mark.parametrize(
    ("mode", "lock", "works"),
    [
        ("a", fcntl.LOCK_SH, False),
        ("r", fcntl.LOCK_EX, False),
        ("a", fcntl.LOCK_EX, True),
        ("r", fcntl.LOCK_SH, True),
        ("r+", fcntl.LOCK_SH | fcntl.LOCK_NB, True),
        ("r+", fcntl.LOCK_EX | fcntl.LOCK_NB, True),
        ("r", fcntl.LOCK_UN, True),
    ],
)
def test_locks_need_the_mode_that_nfs_needs(tmp_path: Path, mode: str, lock: int, works: bool) -> None:
    (tmp_path / "x").touch()
    with (tmp_path / "x").open(mode) as handle:
        if works:
            fcntl.flock(handle, lock)
        else:
            with pytest.raises(OSError, match="Bad file descriptor"):
                fcntl.flock(handle, lock)


def test_ansible_runner_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "p.yml").touch()
    request = PlaybookRequest(str(tmp_path / "p.yml"), ("localhost,",), str(tmp_path))
    with pytest.raises(Failed, match="real ansible-runner"):
        AnsibleRunner().run(request, private_dir=tmp_path / "a", passwords=Passwords(), on_event=lambda _: None)


def test_a_missing_playbook_is_told_before_anything_starts(tmp_path: Path) -> None:
    request = PlaybookRequest(str(tmp_path / "p.yml"), (), str(tmp_path))
    with pytest.raises(UsageError, match=r"no playbook .*p\.yml"):
        AnsibleRunner().run(request, private_dir=tmp_path / "a", passwords=Passwords(), on_event=lambda _: None)


UMASKS: list[int] = []


@pytest.mark.parametrize("turn", ["sets", "finds"])
def test_a_test_leaves_no_umask_behind(turn: str) -> None:
    before = os.umask(0)
    os.umask(before ^ 0o070)
    UMASKS.append(before)
    assert before == UMASKS[0]
