"""A file that is replaced or copied is whole at any time, has the wanted mode, and leaves nothing next to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils.file_replacement import keep_copy, replace_file

BINARY = bytes(range(256)) * 4096


def mode_of(path: Path) -> str:
    return f"{path.stat().st_mode & 0o7777:o}"


class Mover:
    """Ansible's own atomic_move on a host without SELinux; `modes` are those that the file has in its place then."""

    def __init__(self) -> None:
        self.modes: list[str] = []
        self.target = Path()

    def __call__(self, source: str, target: str) -> None:
        self.target = Path(target)
        module: Any = self
        AnsibleModule.atomic_move(module, source, target)

    def selinux_enabled(self) -> bool:
        """Called before the move and at its end."""
        if self.target.exists():
            self.modes.append(mode_of(self.target))
        return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.conf"


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda umask: f"{umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param, "the module's own umask is as it was"


@pytest.mark.parametrize("old", [None, b"", BINARY * 2])
@pytest.mark.parametrize("new", [b"", b"\xff\n", BINARY])
def test_the_content_is_complete_and_alone(path: Path, old: bytes | None, new: bytes) -> None:
    if old is not None:
        path.write_bytes(old)
    replace_file(str(path), new)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (new, [path])


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("move", [os.replace, Mover()], ids=["rename", "atomic_move"])
@pytest.mark.parametrize("old", [None, 0o600, 0o666])
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_a_wanted_mode_depends_on_no_umask_and_no_old_file(path: Path, mode: int, old: int | None, move: Any) -> None:
    if old is not None:
        path.touch()
        path.chmod(old)
    replace_file(str(path), b"x", mode=mode, move=move)
    assert mode_of(path) == f"{mode:o}"


@pytest.mark.usefixtures("umask")
def test_a_new_private_file_is_at_no_time_readable_by_others(path: Path) -> None:
    mover = Mover()
    replace_file(str(path), b"key", mode=0o600, move=mover)
    assert mover.modes
    assert set(mover.modes) == {"600"}


def test_an_existing_file_keeps_its_mode_and_owner_where_ansible_moves_it(path: Path) -> None:
    path.touch()
    path.chmod(0o640)
    owner = (os.geteuid(), 12345 if os.geteuid() == 0 else os.getegid())
    os.chown(path, *owner)
    replace_file(str(path), b"new", move=Mover())
    info = path.stat()
    assert (path.read_bytes(), mode_of(path), (info.st_uid, info.st_gid)) == (b"new", "640", owner)


def test_the_content_is_on_the_disk_before_it_has_the_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power cut could leave an empty file."""
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, path.exists())))
    replace_file(str(path), BINARY)
    assert synced == [(len(BINARY), False)]


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [None, 0o600])
@pytest.mark.parametrize("move", [os.replace, Mover()], ids=["rename", "atomic_move"])
def test_a_move_that_fails_leaves_no_temporary_file(path: Path, mode: int | None, move: Any) -> None:
    (path / "theirs").mkdir(parents=True)
    with pytest.raises(Exception, match=r"a\.conf"):
        replace_file(str(path), b"new", mode=mode, move=move)
    assert sorted(path.parent.rglob("*")) == [path, path / "theirs"]


def test_a_full_disk_leaves_the_old_content_and_no_temporary_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"old")

    def full(_handle: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(str(path), b"new")
    assert (path.read_bytes(), list(path.parent.iterdir())) == (b"old", [path])


def test_a_link_is_replaced_and_its_target_stays(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(b"theirs")
    path.symlink_to(target)
    replace_file(str(path), b"new", mode=0o644)
    assert (path.is_symlink(), path.read_bytes(), target.read_bytes()) == (False, b"new", b"theirs")


@pytest.mark.usefixtures("umask")
def test_a_kept_copy_is_the_file_and_at_no_time_readable_by_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, modes = path.with_name("a.kept"), list[str]()
    path.write_bytes(BINARY)
    path.chmod(0o640)
    owner = (os.geteuid(), 12345 if os.geteuid() == 0 else os.getegid())
    os.chown(path, *owner)
    os.utime(path, ns=(1, 1))
    change_owner = os.chown

    def watched(target: str, *ids: int, **more: bool) -> None:
        modes.append(mode_of(Path(target)))
        change_owner(target, *ids, **more)

    monkeypatch.setattr(os, "chown", watched)
    keep_copy(str(path), str(kept))
    info = kept.stat()
    assert (kept.read_bytes(), mode_of(kept), (info.st_uid, info.st_gid), info.st_mtime_ns) == (BINARY, "640", owner, 1)
    (mode,) = modes
    assert int(mode, 8) & 0o077 == 0
    assert sorted(path.parent.iterdir()) == [path, kept]


def test_a_kept_copy_of_a_link_is_a_link(path: Path) -> None:
    path.symlink_to("elsewhere")
    kept = path.with_name("a.kept")
    keep_copy(str(path), str(kept))
    assert (kept.is_symlink(), kept.readlink()) == (True, Path("elsewhere"))
    assert sorted(path.parent.iterdir()) == [path, kept]


def test_what_is_no_file_leaves_no_copy(path: Path) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        keep_copy(str(path), str(path.with_name("a.kept")))
    assert list(path.parent.iterdir()) == [path]
