"""Passwords without a terminal: lines of standard input, a clear error where there is none, no wait for ever."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.runner import Passwords
from ddp_play.cli import password_prompt
from ddp_play.cli.password_prompt import ask_passwords
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The writing end of standard input, of a process without a terminal."""
    reading, writing = os.pipe()
    monkeypatch.setattr(password_prompt, "STDIN", reading)
    monkeypatch.setattr(password_prompt, "TERMINAL", "/dev/none/tty")
    monkeypatch.setattr(password_prompt, "WAIT_S", 0.3)
    yield writing
    os.close(reading)
    os.close(writing)


def test_one_line_for_each_password(pipe: int) -> None:
    os.write(pipe, b"first\r\nsec ond\nthird\n")
    assert ask_passwords(connection=True, become=False, vault=True) == Passwords(connection="first", vault="sec ond")
    assert ask_passwords(connection=False, become=True) == Passwords(become="third")


@pytest.mark.parametrize("given", [b"", b"\n", b"half"])
def test_no_line_comes(pipe: int, given: bytes) -> None:
    os.write(pipe, given)
    with pytest.raises(UsageError, match="-K asks for the BECOME password, and there is no terminal"):
        ask_passwords(connection=False, become=True)


def test_on_a_terminal_nothing_is_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_prompt, "TERMINAL", "/dev/null")
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"typed at {prompt}")
    assert ask_passwords(connection=True, become=False).connection == "typed at SSH password: "


def test_nothing_is_asked_without_need() -> None:
    assert ask_passwords(connection=False, become=False) == Passwords()
