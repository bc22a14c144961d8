"""Files that are opened, made and replaced although other users put something else in their place."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import leftovers, untrusted_paths
from ddp_play.guard.untrusted_paths import locate
from tests.unit.guard.hostile import (
    a_directory,
    a_fifo,
    a_link,
    error_of,
    needs_root,
    shared_run,
    some_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_root


@pytest.mark.usefixtures("no_descriptor_left")
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize(
    ("put", "number", "words"),
    [
        (a_link, errno.ELOOP, "is a symbolic link, which is not followed"),
        (a_fifo, errno.EINVAL, "is a FIFO, not a regular file"),
        (a_directory, errno.EINVAL, "is a directory"),
    ],
)
def test_only_a_regular_file_is_opened(
    tmp_path: Path, put: Callable[[Path], Path], number: int, words: str, writable: bool
) -> None:
    path = put(tmp_path)
    caught = error_of(untrusted_paths.open_file, locate(path), writable=writable)
    assert (caught.errno, caught.strerror, caught.filename) == (number, words, str(path))


@pytest.mark.usefixtures("no_descriptor_left")
@pytest.mark.parametrize("put", [a_link, a_fifo, a_directory])
def test_what_takes_the_place_of_a_file_after_the_check_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], Path]
) -> None:
    """A rank has all the time between `stat` and `open`."""
    path = put(tmp_path)
    monkeypatch.setattr(os, "stat", lambda *_, **__: os.lstat("/proc/version"))
    caught = error_of(untrusted_paths.open_file, locate(path))
    assert caught.filename == str(path)


def test_a_file_is_opened_to_read_unless_a_lock_needs_more(tmp_path: Path) -> None:
    below = locate(some_file(tmp_path))
    with untrusted_paths.open_file(below) as handle:
        assert handle.read() == b"text"
        assert not handle.writable()
    with untrusted_paths.directory(below.parent) as fd, untrusted_paths.open_at(fd, "file", "file") as handle:
        assert not handle.writable()
    with untrusted_paths.open_file(below, writable=True) as handle:
        assert handle.writable()
        assert handle.read() == b"text", "what is there is not truncated"


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_file_of_another_user_is_not_opened(tmp_path: Path) -> None:
    path = some_file(tmp_path)
    os.chown(path, 65534, 65534)
    with untrusted_paths.open_file(locate(path), 65534) as handle:
        assert handle.read() == b"text"
    caught = error_of(untrusted_paths.open_file, locate(path), 0)
    assert caught.errno == errno.EPERM
    assert "belongs to nobody, not to root" in str(caught)


def test_what_is_below_a_directory_that_does_not_exist_does_not_exist(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    error = error_of(untrusted_paths.open_file, locate(run / "gone" / "file"))
    assert (error.errno, error.filename) == (errno.ENOENT, str(run / "gone"))
    assert leftovers._remove_tree(run / "gone" / "file") == []


def test_a_new_file_is_new(tmp_path: Path) -> None:
    with untrusted_paths.new_file(locate(tmp_path / "new")) as handle:
        handle.write(b"1")
    (tmp_path / "dangling").symlink_to(tmp_path / "made-through-a-link")
    for name in ("new", "dangling"):
        with pytest.raises(FileExistsError):
            untrusted_paths.new_file(locate(tmp_path / name))
    assert (tmp_path / "new").read_bytes() == b"1"
    assert not (tmp_path / "made-through-a-link").exists()


def test_a_file_replaces_what_had_its_name(tmp_path: Path) -> None:
    victim, link = some_file(tmp_path), tmp_path / "name"
    link.symlink_to(victim)
    before = os.umask(0o077)
    try:
        untrusted_paths.create_file(locate(link), b"new", {0})
    finally:
        os.umask(before)
    assert (link.read_bytes(), stat.filemode(link.lstat().st_mode)) == (b"new", "-rw-r--r--")
    assert victim.read_bytes() == b"text"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "name"]
