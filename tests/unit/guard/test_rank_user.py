"""Processes and files of the ranks' user, where root acts for another one."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import container_rank, fact_gathering, mpi_check
from ddp_play.guard.rank_user import acting_as, supplementary_groups
from ddp_play.guard.untrusted_paths import Below, directory, entries
from tests.unit.guard.hostile import NOBODY, USER, attempt, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_root


def test_a_rank_has_the_groups_of_a_login_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that is readable by the group of a project gave EACCES to ranks that root started."""
    account = pwd.getpwuid(NOBODY)
    groups = [NOBODY, 20001, 20002]
    monkeypatch.setattr(
        os, "getgrouplist", lambda name, gid: groups if (name, gid) == (account.pw_name, NOBODY) else []
    )
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 0, 20002)
    data.chmod(0o750)
    tmp_path.chmod(0o711)
    place = attempt(tmp_path)
    rank = container_rank.make(
        {"rank": 0, "argv": ["id", "-G"], "env": dict(os.environ), "workdir": "/", "user": USER}, place
    )
    rank.start()
    assert os.waitpid(rank.row["pid"], 0)[1] == 0
    assert place.log(0).read_text().split() == ["65534", "20001", "20002"]
    with directory(Below(tmp_path, ("data",))) as fd, acting_as(USER):
        assert entries(fd) == ([], [])


def test_a_uid_without_an_account_has_the_groups_of_the_spec() -> None:
    assert supplementary_groups({"uid": 54321, "gid": 54321, "groups": [54321]}) == [54321]


def test_rights_come_back_after_an_error(tmp_path: Path) -> None:
    before = os.geteuid(), os.getegid(), os.getgroups()
    with pytest.raises(PermissionError, match="/65534/65534"), acting_as(USER):
        (tmp_path / f"{os.geteuid()}" / f"{os.getegid()}").touch()
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before


@pytest.fixture
def passable() -> Iterator[Path]:
    """A directory that every user may enter; pytest's own are for one user."""
    with tempfile.TemporaryDirectory(prefix="ddp-play-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.mark.parametrize(("wanted", "uid"), [("", "65534"), ("65533:65533", "65533"), ("0:0", "0")])
def test_the_python_of_the_ranks_runs_as_their_user(
    passable: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, uid: str
) -> None:
    """`ddp_python` may be in a directory of the ranks' user: root would run whatever that user puts there."""
    python = passable / "python3"
    python.write_text("#!/bin/sh\nid -u\n")
    python.chmod(0o755)
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    found = fact_gathering.collect({"python": str(python), "user": wanted})
    assert found["rank_python"]["version"] == uid
    spec = {"runtime": "process", "user": USER, "ranks": [{"argv": [str(python)], "env": {"PATH": "/usr/bin:/bin"}}]}
    python.write_text("#!/bin/sh\nid -u >&2; exit 1\n")
    assert mpi_check.problem(spec) == "65534"
