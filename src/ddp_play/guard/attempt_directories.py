"""Directories and files of an attempt on this host: layout, owners and modes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Dict

from . import leftovers
from .rank_user import User, other_user, owners
from .run_directory import HostRun, atomic_write
from .untrusted_paths import create_file, locate, make_directory


def create_files(place: HostRun, spec: Dict[str, Any]) -> None:
    """Create the directories and the files of the ranks, for their user, and the directories of `make_dirs`."""
    user = spec.get("user")
    os.umask(0o077)
    for path in (place.root, place.control, place.logs, place.env):
        path.mkdir(parents=True, exist_ok=True)
    _create_rank_files(place, spec)
    for row in spec.get("make_dirs", []):
        make_dir(Path(row["path"]), int(row["mode"]), user)
    if spec.get("head"):
        for run_path in spec.get("run_paths", []):
            create_file(locate(Path(run_path) / leftovers.ATTEMPT_MARK), b"%d" % spec["attempt"], owners(user))
    if user and user["uid"] != os.geteuid():
        # the user of the ranks may enter, and read only the files of the ranks
        for path in (
            place.root,
            place.root.parent,
            place.root.parent.parent,
            place.root.parent.parent.parent,
        ):
            path.chmod(0o711)
        place.logs.chmod(0o711)


def _create_rank_files(place: HostRun, spec: Dict[str, Any]) -> None:
    user = spec.get("user")
    for rank in spec["ranks"]:
        number = int(rank["rank"])
        place.rank_dir(number).mkdir(exist_ok=True)
        place.log(number).touch()
        atomic_write(place.env / ("rank-%d.env" % number), rank.pop("env_file", "").encode("utf-8", "surrogateescape"))
        _give(place.rank_dir(number), user)
        _give(place.log(number), user)
    if spec.get("agent"):
        place.agent_log.touch()
        _give(place.agent_log, user)


def make_dir(path: Path, mode: int, user: User) -> None:
    """Create a directory for the ranks' user. That of all runs stays ours: its owner can rename what is in it."""
    given = other_user(user) if not mode & stat.S_ISVTX else None
    make_directory(
        locate(path),
        _mode_for(user, mode),
        (given["uid"], given["gid"]) if given else None,
        owners(user),
    )


def _mode_for(user: User, mode: int) -> int:
    """Mode of a directory of the ranks: open to ranks whose user cannot own it."""
    return mode | 0o055 if _is_another_user(user) else mode


def _is_another_user(user: User) -> bool:
    """Whether the ranks run as another user and this process cannot change the owner of files."""
    return user is not None and os.geteuid() not in (0, user["uid"])


def _give(path: Path, user: User) -> None:
    found = other_user(user)
    if found is not None:
        os.chown(str(path), found["uid"], found["gid"])  # in a directory that is not the user's
