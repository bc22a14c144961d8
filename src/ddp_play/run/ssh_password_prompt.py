"""Answers to the password prompts of an ssh process, on a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import re
import tty

# Makes $0 the controlling terminal of the new session, where ssh prompts, and executes the command.
_ON_TERMINAL = 'exec 9<>"$0"; exec 9>&-; exec "$@"'
_PASSWORD = re.compile(r"password[^\n]*:\s*\Z", re.IGNORECASE)
_HOST_KEY = re.compile(r"\(yes/no[^\n]*\Z")
_ANY_PROMPT = re.compile(r"[^\s][:?]\s*\Z")
READ_SIZE = 4096


class SshPasswordPrompt:
    """A pseudo-terminal. ssh gets the password only through it: no argument, variable or file contains it.

    Each different prompt gets the password once, so that a wrong one is no second failure on the host.
    """

    def __init__(self, password: str) -> None:
        self._password = password
        self._text = ""
        self._answered: set[str] = set()
        self.fd, self._slave = os.openpty()  # our end of the slave stays open: ssh opens it only to ask
        tty.setraw(self._slave)
        os.set_blocking(self.fd, False)

    def command(self, argv: list[str]) -> list[str]:
        """The command line that runs ssh on this terminal; it must begin a session."""
        ssh, *rest = argv
        return ["/bin/sh", "-c", _ON_TERMINAL, os.ttyname(self._slave), ssh, "-o", "NumberOfPasswordPrompts=1", *rest]

    @staticmethod
    def environment() -> dict[str, str]:
        """The caller's environment without programs that ssh would use to prompt instead."""
        return {name: value for name, value in os.environ.items() if not name.startswith("SSH_ASKPASS")}

    def answer(self) -> None:
        """Read the output of ssh there and answer its last line if that is a prompt."""
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, READ_SIZE):
                self._text = (self._text + data.decode("utf-8", "replace"))[-READ_SIZE:]
        last = self._text.replace("\r", "\n").rpartition("\n")[2]
        reply = self._reply(last)
        if reply is not None:
            self._text = ""
            with contextlib.suppress(OSError):
                os.write(self.fd, reply.encode() + b"\n")

    def _reply(self, prompt: str) -> str | None:
        """The password, once; no to an unknown host key; nothing to any other question, such as a key's passphrase."""
        if _HOST_KEY.search(prompt):
            return "no"
        if _PASSWORD.search(prompt) and prompt not in self._answered:
            self._answered.add(prompt)
            return self._password
        return "" if _ANY_PROMPT.search(prompt) else None

    def close(self) -> None:
        """Give the terminal back."""
        for fd in (self.fd, self._slave):
            with contextlib.suppress(OSError):
                os.close(fd)
