"""The user's name and state directory where the machine knows neither, as in `docker run -u 4242`."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.controller_user import expanded, state_directory, user_name
from ddp_play.errors import UsageError


@pytest.fixture
def unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a name, a home and an entry in passwd."""

    def unknown(uid: Any) -> Any:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME", "DDP_PLAY_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("unknown_user")
def test_a_user_without_a_name_has_a_number() -> None:
    assert user_name() == str(os.getuid())


def test_a_user_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "kim")
    assert user_name() == "kim"


@pytest.mark.usefixtures("unknown_user")
def test_without_a_home_the_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="HOME is not set, and this machine has no home") as caught:
        state_directory()
    assert caught.value.hint.startswith("export DDP_PLAY_HOME=DIRECTORY ")
    monkeypatch.setenv("DDP_PLAY_HOME", "/data")
    assert state_directory() == Path("/data")


def test_a_home_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", "~nouser/x")
    with pytest.raises(UsageError, match="DDP_PLAY_HOME is ~nouser/x, and there is no such home directory"):
        state_directory()
    assert expanded("~nouser/x") == Path("~nouser/x")


@pytest.mark.parametrize("state", ["state", "./state", "~nouser/state"])
def test_a_relative_state_home_is_ignored(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """The runs depended on the current directory."""
    monkeypatch.delenv("DDP_PLAY_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert state_directory() == Path("/home/me/.local/state/ddp-play")
