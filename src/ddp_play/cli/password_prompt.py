"""Passwords that are typed, or that standard input has where there is no terminal: one a line."""

from __future__ import annotations

import getpass
import os
import select
import time

from ddp_play.ansible.runner import Passwords
from ddp_play.errors import UsageError

TERMINAL = "/dev/tty"
STDIN = 0
# Whoever gives a password through a pipe has it ready; a pipe of a scheduler may stay open and empty for ever.
WAIT_S = 10.0
MOST_BYTES = 4096


def ask_passwords(*, connection: bool, become: bool, vault: bool = False) -> Passwords:
    """Ask for passwords. UsageError where there is no terminal and standard input has none."""
    return Passwords(
        connection=_ask("SSH password", "-k") if connection else "",
        become=_ask("BECOME password", "-K") if become else "",
        vault=_ask("Vault password", "-J") if vault else "",
    )


def _ask(what: str, option: str) -> str:
    if _has_terminal():
        return getpass.getpass(f"{what}: ")
    found = _line_of_stdin(WAIT_S)
    if not found:
        raise UsageError(
            f"{option} asks for the {what}, and there is no terminal to type it, nor a line on standard input",
            hint=f"use a terminal, pipe the password into the command, or do without {option}: SSH keys, "
            "sudo without a password, --vault-password-file",
        )
    return found


def _has_terminal() -> bool:
    """Has this process a terminal, as getpass needs it?"""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return os.isatty(STDIN)
    return True


def _line_of_stdin(wait_s: float) -> str:
    """The next line; empty at the end, or if none comes in time. Not a byte more is read: others may follow."""
    read = b""
    until = time.monotonic() + wait_s
    while len(read) < MOST_BYTES and not read.endswith(b"\n"):
        if not select.select([STDIN], [], [], max(0.0, until - time.monotonic()))[0]:
            return ""
        if not (byte := os.read(STDIN, 1)):
            break
        read += byte
    return read.decode("utf-8", "surrogateescape").rstrip("\r\n")
