"""Password prompts on a terminal of their own, asked by a stand-in for ssh that reads /dev/tty."""

from __future__ import annotations

import select
import subprocess
import sys
import time

import pytest

from ddp_play.run.ssh_password_prompt import SshPasswordPrompt

PASSWORD = 'it\'s "a" $pass !word\\'
ASKS = """
import os, sys, termios
tty = os.open("/dev/tty", os.O_RDWR)
mode = termios.tcgetattr(tty)
mode[3] = mode[3] & ~termios.ECHO | termios.ICANON
mode[0] |= termios.ICRNL
termios.tcsetattr(tty, termios.TCSAFLUSH, mode)
for prompt in sys.argv[3:]:
    os.write(tty, prompt.encode())
    print(os.read(tty, 1000).decode().rstrip("\\n"), flush=True)
"""


def asked(*prompts: str) -> list[str]:
    """What a process that asks these on its terminal was answered, line by line."""
    prompt = SshPasswordPrompt(PASSWORD)
    argv = prompt.command([sys.executable, *prompts])
    at = argv.index(sys.executable)
    process = subprocess.Popen(
        [*argv[: at + 1], "-c", ASKS, *argv[at + 1 :]], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        select.select([prompt.fd], [], [], 0.1)
        prompt.answer()
    prompt.close()
    process.kill()
    out, _ = process.communicate()
    return out.splitlines()


@pytest.mark.parametrize(
    ("prompts", "answers"),
    [
        (("ops@h1's password: ",), [PASSWORD]),
        (("(ops@h1) Password: ",), [PASSWORD]),
        (("ops@jump's password: ", "ops@h1's password: "), [PASSWORD, PASSWORD]),
        (("ops@h1's password: ", "\r\nops@h1's password: "), [PASSWORD, ""]),
        (("Enter passphrase for key '/home/ops/.ssh/id_ed25519': ",), [""]),
        (("Verification code: ",), [""]),
        (("Are you sure you want to continue connecting (yes/no/[fingerprint])? ",), ["no"]),
    ],
)
def test_prompts_and_answers(prompts: tuple[str, ...], answers: list[str]) -> None:
    assert asked(*prompts) == answers


def test_the_password_is_in_no_argument_and_not_asked_for_by_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_ASKPASS", "/usr/bin/asks")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    prompt = SshPasswordPrompt(PASSWORD)
    command = prompt.command(["ssh", "-p", "22", "h1"])
    assert command[-6:] == ["ssh", "-o", "NumberOfPasswordPrompts=1", "-p", "22", "h1"]
    assert not any(PASSWORD in word for word in command)
    assert not {"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"} & set(prompt.environment())
    prompt.close()
