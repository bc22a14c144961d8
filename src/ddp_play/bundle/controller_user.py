"""User of this controller: the name, paths with `~`, and the directory of the user's state."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from ddp_play.errors import UsageError

STATE_DIRECTORY = "DDP_PLAY_HOME"


def user_name() -> str:
    """Name of the user, or the number of one that this machine has no name for, as with `docker run -u`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())


def expanded(path: str) -> Path:
    """The path with its `~` replaced. It stays where there is no such home: `Path.expanduser` would be a crash."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - as the docstring says


def state_directory() -> Path:
    """$DDP_PLAY_HOME, else a folder in the user's state directory. UsageError if there is no home to find it in."""
    if explicit := os.environ.get(STATE_DIRECTORY):
        return _at_home(explicit, f"{STATE_DIRECTORY} is {explicit}, and there is no such home directory").absolute()
    state = expanded(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # unset, or to be ignored: the XDG Base Directory Specification
        missing = f"HOME is not set, and this machine has no home directory of user {user_name()}"
        state = _at_home("~/.local/state", missing)
    return state / "ddp-play"


def _at_home(path: str, missing: str) -> Path:
    found = expanded(path)
    if found.parts and found.parts[0].startswith("~"):
        raise UsageError(missing, hint=f"export {STATE_DIRECTORY}=DIRECTORY names the directory of runs and results")
    return found
