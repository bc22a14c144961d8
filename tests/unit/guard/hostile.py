"""A rank as an unprivileged user next to a program that runs as root, and what it may try with its files."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_directories
from ddp_play.guard.run_directory import HostRun, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = 65534
USER = {"uid": NOBODY, "gid": NOBODY, "groups": [NOBODY]}
SECRET = b"root:hash:19000::::::\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root and a second user")


def as_nobody(directory: Path, script: str) -> None:
    """Run a shell script as another user; its working directory is entered with the rights of this process."""
    subprocess.run(
        ["/bin/sh", "-ec", script], cwd=directory, user=NOBODY, group=NOBODY, extra_groups=[], check=True, timeout=20
    )


def attempt(tmp_path: Path, **spec: Any) -> HostRun:
    """An attempt that root prepared for the ranks of another user, and a file of root that its ranks want."""
    place = HostRun(tmp_path / "state" / "runs" / "night.0123456789abcdef" / "1.h1")
    none = {"role": "none", "path": "", "collect": False}
    full = {"ranks": [{"rank": 0}], "source": none, "user": USER, "attempt": 1, **spec}
    before = os.umask(0o022)
    attempt_directories.create_files(place, full)
    os.umask(before)
    write_json(place.spec, full)
    return place


def root_only(tmp_path: Path) -> Path:
    """A file that only root may read, like /etc/shadow."""
    path = tmp_path / "shadow"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


def shared_run(tmp_path: Path) -> Path:
    """Directory of the run on a shared directory, owned by the ranks' user."""
    run = tmp_path / "shared" / ".ddp-play" / "night.0123456789abcdef"
    run.mkdir(parents=True)
    run.chmod(0o711)
    os.chown(run, NOBODY, NOBODY)
    return run


# What stands in the place of a file; {shadow} is a file that only root may read.
PUT = {
    "a symbolic link": "ln -s {shadow} {name}",
    "a symbolic link to a link": "ln -s {shadow} first; ln -s first {name}",
    "a FIFO": "mkfifo {name}",
    "a directory": "mkdir {name}",
}


def in_time(call: Callable[[], Any]) -> Any:
    """What a call returns; it must not block."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it blocks"
    return found[0]


def error_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> OSError:
    """The error that a call raises; it must not block."""

    def called() -> list[OSError]:
        try:
            call(*arguments, **options)
        except OSError as error:
            return [error]
        return []

    (error,) = in_time(called)
    assert isinstance(error, OSError)
    return error


def some_file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    return path


def a_link(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(some_file(tmp_path))
    return tmp_path / "link"


def a_fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def a_directory(tmp_path: Path) -> Path:
    (tmp_path / "directory").mkdir()
    return tmp_path / "directory"
