"""What connections say, and what helps."""

from __future__ import annotations

import pytest

from ddp_play.ansible import connection_problems

CHANGED_KEY = """Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/ops/.ssh/known_hosts:12
Host key for 10.0.0.5 has changed and you have requested strict checking.
Host key verification failed."""

SAID: list[tuple[str, bool, str, str]] = [
    (CHANGED_KEY, False, "host_key", "ssh-keygen -R 10.0.0.5"),
    ("Failed to connect to the host via ssh: Host key verification failed.", False, "host_key", "ssh-keyscan"),
    (
        "Failed to connect to the host via ssh: ops@10.0.0.5: Permission denied (publickey).",
        False,
        "credentials",
        "--private-key",
    ),
    (
        "Failed to connect to the host via ssh: ops@10.0.0.5: Permission denied (publickey,password).",
        False,
        "credentials",
        "-u",
    ),
    ("Invalid/incorrect password: Permission denied, please try again.", False, "credentials", "--private-key"),
    ("Missing sudo password", True, "become", "-K"),
    ("Incorrect sudo password", True, "become", "-K"),
    ("sudo: a password is required", True, "become", "NOPASSWD"),
    ("sudo: a terminal is required to read the password; either use the -S option", True, "become", "-K"),
    ("ops is not in the sudoers file.  This incident will be reported.", True, "become", "sudoers"),
    ("Sorry, user ops is not allowed to execute '/bin/sh' as root on h1.", True, "become", "sudoers"),
    ("ssh: Could not resolve hostname h1: Name or service not known", False, "unreachable", "ansible_host"),
    ("ssh: connect to host 10.0.0.5 port 22: Connection refused", False, "unreachable", "ssh 10.0.0.5"),
    ("ssh: connect to host 10.0.0.5 port 22: No route to host", False, "unreachable", "is it up?"),
    ("Connection timed out during banner exchange", False, "unreachable", "is it up?"),
    ("/bin/sh: 1: exec: /usr/libexec/platform-python: not found", True, "python", "install Python 3.9"),
    ("dash: 1: exec: /opt/py/bin/python3.12: not found", True, "python", "ansible_python_interpreter"),
    ("bash: line 1: /usr/libexec/platform-python: No such file or directory", True, "python", "on h1"),
    ("bash: line 1: /opt/python3: cannot execute: No such file or directory", True, "python", "Python"),
    ("SyntaxError: future feature annotations is not defined", True, "python", "Python 3.9"),
    ("PermissionError: [Errno 13] Permission denied: '/var/lib/ddp-play'", True, "other", ""),
    ("OSError: [Errno 28] No space left on device", True, "other", ""),
    ("", False, "unreachable", "is it up?"),
]


@pytest.mark.parametrize(("text", "reached", "kind", "hint"), SAID, ids=[row[0][-48:] for row in SAID])
def test_what_connections_say(text: str, reached: bool, kind: str, hint: str) -> None:
    problem = connection_problems.problem_from_text("h1", text, "10.0.0.5", reached=reached)
    assert (problem["host"], problem["kind"]) == ("h1", kind)
    assert hint in problem["hint"]
    assert "@@@" not in problem["message"]
    assert problem["message"]


def test_our_own_hint_is_kept() -> None:
    problem = connection_problems.problem_from_text(
        "h1", "Python 3.8.1 is too old", "h1", reached=True, hint="3.9 or newer"
    )
    assert (problem["kind"], problem["hint"]) == ("other", "3.9 or newer")


def test_a_long_story_is_cut_at_its_beginning() -> None:
    problem = connection_problems.problem_from_text("h1", "blah\n" * 500 + "the point", "h1")
    assert len(problem["message"]) == 400
    assert problem["message"].endswith("the point")
