"""Where the state of a host is: on a local file system, and on a path that no neighbour can change."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.guard import state_directory
from ddp_play.guard.state_directory import Mount, UnusableError
from tests.unit.guard.hostile import needs_root

NEIGHBOUR = 61002


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No variable names a directory; the usual one of root is below a directory of the test."""
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    monkeypatch.setattr(state_directory, "OF_ROOT", str(tmp_path / "of-root"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def all_mounts_are(kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel's list say that every file system is of this type."""
    lines = Path("/proc/self/mountinfo").read_text()
    (directory / "mountinfo").write_text(re.sub(r" - \S+ \S+ ", f" - {kind} nfs1:/home ", lines))
    monkeypatch.setattr(state_directory, "MOUNTINFO", str(directory / "mountinfo"))


@pytest.mark.parametrize("below", ["", "/", "/not/there/yet"])
@pytest.mark.parametrize(("path", "kind"), [("/dev/shm", "tmpfs"), ("/proc/self", "proc")])
def test_the_type_of_a_mount(path: str, kind: str, below: str) -> None:
    assert state_directory.mount_of(path + below).kind == kind


def test_a_link_is_followed_to_its_file_system(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to("/dev/shm")
    assert state_directory.mount_of(str(tmp_path / "home" / "ddp-play")).kind == "tmpfs"


@pytest.mark.parametrize(("path", "kind"), [("/dev/shm", "tmpfs"), ("/proc", "unknown type 0x9fa0")])
def test_a_mount_outside_of_the_root_directory_is_not_listed(
    path: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_directory, "MOUNTINFO", os.devnull)
    assert state_directory.mount_of(path) == Mount(kind, "")


@pytest.mark.parametrize(
    ("kind", "local", "remote"),
    [
        *((kind, True, False) for kind in ("ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.fuse-overlayfs")),
        *((kind, False, True) for kind in ("nfs", "nfs4", "cifs", "lustre", "gpfs", "beegfs", "ceph", "9p", "gfs2")),
        *((kind, False, True) for kind in ("fuse", "fuse.sshfs", "fuse.glusterfs", "autofs", "virtiofs")),
        *((kind, False, False) for kind in ("proc", "newfs", "unknown", "unknown type 0x1")),
    ],
)
def test_what_counts_as_local(kind: str, local: bool, remote: bool) -> None:
    mount = Mount(kind, "server:/home")
    assert (mount.local, mount.remote) == (local, remote)


def test_a_local_home_is_used(unnamed: Path) -> None:
    choice = state_directory.choose()
    assert choice.path in {str(unnamed / "of-root"), str(unnamed / "state/ddp-play/host")}
    assert choice.reason == ""
    assert state_directory.earlier() == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "newfs"])
def test_no_local_directory_is_refused_by_name(unnamed: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    all_mounts_are(kind, unnamed, monkeypatch)
    with pytest.raises(UnusableError) as caught:
        state_directory.create()
    for words in (f" is on {kind} (nfs1:/home), which is not local", "/var/tmp cannot be used", "set ddp_state_dir"):
        assert words in str(caught.value)


@pytest.mark.parametrize(("variable", "name"), [("DDP_PLAY_STATE_DIR", "ddp_state_dir"), ("DDP_PLAY_HOST_DIR",) * 2])
def test_a_named_directory_is_checked_as_well(
    unnamed: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    monkeypatch.setenv(variable, str(unnamed / "named"))
    assert state_directory.create() == str(unnamed / "named")
    assert (unnamed / "named").stat().st_mode & 0o777 == 0o700
    all_mounts_are("nfs4", unnamed, monkeypatch)
    with pytest.raises(UnusableError, match=f"{name} is {unnamed}/named, which is on nfs4"):
        state_directory.create()
    all_mounts_are("newfs", unnamed, monkeypatch)
    assert state_directory.create() == str(unnamed / "named"), "a person says that this type is local"
    monkeypatch.setenv(variable, "relative")
    with pytest.raises(UnusableError, match="absolute path"):
        state_directory.create()


def test_the_variable_of_the_inventory_goes_before_that_of_the_login(
    unnamed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(unnamed / "login"))
    monkeypatch.setenv("DDP_PLAY_STATE_DIR", str(unnamed / "inventory"))
    assert state_directory.create() == str(unnamed / "inventory")


def test_a_path_through_a_directory_for_all_is_refused(unnamed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (unnamed / "open").mkdir()
    (unnamed / "open").chmod(0o777)
    monkeypatch.setenv("DDP_PLAY_STATE_DIR", str(unnamed / "open" / "mine"))
    with pytest.raises(UnusableError, match=f"others may replace what is in {unnamed}/open .*mode 0777"):
        state_directory.create()
    (unnamed / "open").chmod(0o1777)
    assert state_directory.create() == str(unnamed / "open" / "mine")


@needs_root
def test_a_path_that_a_neighbour_can_change_is_refused(unnamed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (unnamed / "open").mkdir()
    (unnamed / "open").chmod(0o1777)
    (unnamed / "open" / "link").symlink_to(unnamed)
    (unnamed / "open" / "theirs").mkdir()
    for name in ("link", "theirs"):
        os.chown(unnamed / "open" / name, NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)
        monkeypatch.setenv("DDP_PLAY_STATE_DIR", str(unnamed / "open" / name / "mine"))
        with pytest.raises(UnusableError, match=r"is a symbolic link of uid 61002|others may replace what is in"):
            state_directory.create()
        assert not (unnamed / "mine").exists()


# The constants of linux/magic.h and of statfs(2), by the names of the types in mountinfo.
MAGIC = {
    "ext4": 0xEF53, "xfs": 0x58465342, "btrfs": 0x9123683E, "zfs": 0x2FC12FC1, "f2fs": 0xF2F52010, "tmpfs": 0x01021994,
    "overlay": 0x794C7630, "nfs": 0x6969, "smbfs": 0x517B, "smb3": 0xFE534D42, "cifs": 0xFF534D42, "ceph": 0x00C36400,
    "lustre": 0x0BD00BD0, "gpfs": 0x47504653, "beegfs": 0x19830326, "panfs": 0xAAD7AAEA, "afs": 0x5346414F,
    "coda": 0x73757245, "gfs2": 0x01161970, "ocfs2": 0x7461636F, "9p": 0x01021997, "fuse": 0x65735546,
    "unknown type 0x1021993": 0x01021993, "unknown": None,
}  # fmt: skip


@pytest.mark.parametrize("kind", MAGIC)
def test_the_kernels_number_of_a_file_system(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """For a mount above the root directory of a container; None: the kernel tells nothing."""
    number = MAGIC[kind]

    def fstatfs(_fd: int, found: Any) -> int:
        found.raw = (number or 0).to_bytes(8, "little") + b"\xff" * (len(found) - 8)
        return 0 if number else -1

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(fstatfs=fstatfs))
    assert state_directory._statfs_kind(3) == kind


@pytest.mark.parametrize(
    ("uid", "state", "where"),
    [(0, "/state", "/srv/of-root"), (1, "/state", "/state/ddp-play/host"), (7, "", "/home/.local/state/ddp-play/host")],
)
def test_the_usual_directory(monkeypatch: pytest.MonkeyPatch, uid: int, state: str, where: str) -> None:
    monkeypatch.setattr(state_directory, "OF_ROOT", "/srv/of-root")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("HOME", "/home")
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert state_directory.usual() == where


@pytest.mark.parametrize(
    ("named", "kind", "exists", "found"),
    [("", "nfs", True, True), ("/x", "nfs", True, False), ("", "ext4", True, False), ("", "nfs", False, False)],
)
def test_the_directory_of_an_earlier_version_counts_where_it_would_not_be_chosen_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, kind: str, exists: bool, found: bool
) -> None:
    monkeypatch.setattr(state_directory, "named", lambda: (named, named))
    monkeypatch.setattr(state_directory, "mount_of", lambda _: Mount(kind, ""))
    monkeypatch.setattr(state_directory, "usual", lambda: str(tmp_path if exists else tmp_path / "none"))
    assert state_directory.earlier() == (str(tmp_path) if found else "")


@pytest.mark.parametrize(
    ("usual", "temporary", "sticky", "path"),
    [
        ("ext4", "nfs", False, "/usual"),
        ("nfs", "ext4", True, "/var/tmp/ours"),
        ("nfs", "ext4", False, None),
        ("nfs", "nfs", True, None),
        ("newfs", "tmpfs", True, "/var/tmp/ours"),
    ],
)
def test_which_directory_is_chosen(
    monkeypatch: pytest.MonkeyPatch, usual: str, temporary: str, sticky: bool, path: str | None
) -> None:
    kinds = {"/usual": usual, state_directory.TEMPORARY: temporary}
    monkeypatch.setattr(state_directory, "named", lambda: ("", ""))
    monkeypatch.setattr(state_directory, "usual", lambda: "/usual")
    monkeypatch.setattr(state_directory, "mount_of", lambda at: Mount(kinds[at], ""))
    monkeypatch.setattr(state_directory, "protected", lambda _: sticky)
    monkeypatch.setattr(state_directory, "own_directory", lambda parent: f"{parent}/ours")
    if path is None:
        with pytest.raises(UnusableError, match="no local directory"):
            state_directory.choose()
    else:
        found = state_directory.choose()
        reason = "" if path == "/usual" else f"/usual is on {usual}, which is not local"
        assert (found.path, found.mount.local, found.reason) == (path, True, reason)
