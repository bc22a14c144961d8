"""Passwords of a run that has no supervisor any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.runner import Passwords
from ddp_play.bundle.paths import RunPaths
from ddp_play.cli import run_passwords
from ddp_play.cli.run_passwords import ask_passwords_of
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was asked, and what was tried on a host."""
    found: list[object] = []

    def ask(**which: bool) -> Passwords:
        found.append(which)
        return Passwords(connection="secret" if which["connection"] else "")

    monkeypatch.setattr(run_passwords, "ask_passwords", ask)
    monkeypatch.setattr(run_passwords, "check_password", lambda _paths, *words: found.append(words))
    return found


def test_a_run_with_keys_is_asked_for_what_was_wanted(
    tmp_path: Path, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_passwords, "hosts_with_password", lambda _paths: [])
    ask_passwords_of(RunPaths(tmp_path / "night"), "stop", ssh=False, become=True)
    assert asked == [{"connection": False, "become": True}]


@pytest.mark.parametrize("verb", ["attach", "stop"])
def test_a_password_is_asked_for_and_tried(
    verb: str, tmp_path: Path, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_passwords, "hosts_with_password", lambda _paths: ["h1"])
    paths = RunPaths(tmp_path / "night")
    with pytest.raises(UsageError, match=r"logs in with a password \(h1\)") as caught:
        ask_passwords_of(paths, verb, ssh=False, become=False)
    assert (caught.value.hint, asked) == (f"ddp-play {verb} night -k asks for it", [])
    ask_passwords_of(paths, verb, ssh=True, become=False)
    assert asked == [{"connection": True, "become": False}, (verb, "secret")]
