"""Kinds and remedies of problems with a connection to a host, by the text of the error."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ddp_play.ansible import host_problems
from ddp_play.ansible.known_problems import KNOWN_PROBLEMS

CHANGED_KEY = """Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/ops/.ssh/known_hosts:12
Host key for 10.0.0.5 has changed and you have requested strict checking.
Host key verification failed."""

SAID: list[tuple[str, bool, str, str]] = [
    (
        CHANGED_KEY,
        False,
        "host_key",
        "ssh-keygen -f /home/ops/.ssh/known_hosts -R '10.0.0.5' && ssh-keyscan 10.0.0.5 >> /home/ops/.ssh/known_hosts",
    ),
    ("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", False, "host_key", "ssh 10.0.0.5 names the file"),
    (
        "Failed to connect to the host via ssh: Host key verification failed.",
        False,
        "host_key",
        "ssh-keyscan 10.0.0.5 >> ~/.ssh/known_hosts",
    ),
    ("No ED25519 host key is known for h1 and you have requested strict checking.", False, "host_key", "ssh-keyscan"),
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
    (
        'unix_listener: path "/home/k/.ansible/cp/d0afc7f518.02IWqZNP1CzUoP9x" too long for Unix domain socket',
        False,
        "other",
        "export ANSIBLE_SSH_CONTROL_PATH_DIR=$(mktemp -d)",
    ),
    (
        "no such identity: /k/id: No such file or directory\nops@h1: Permission denied (publickey).",
        False,
        "credentials",
        "the SSH key /k/id does not exist here",
    ),
    (
        'Load key "/k/a b": bad permissions\nops@h1: Permission denied (publickey).',
        False,
        "credentials",
        "chmod 600 /k/a b",
    ),
    ("ops@10.0.0.5: Permission denied (publickey,password).", False, "credentials", "ssh-copy-id 10.0.0.5"),
    ("Your account has expired; please contact your system administrator.", False, "credentials", "chage -E -1 USER"),
    ("Password change required but no TTY available.", True, "credentials", "ssh 10.0.0.5 asks for a new one"),
    ("This account is currently not available.", True, "credentials", "as root on h1: chsh -s /bin/bash USER"),
    ("Received disconnect from ::1: 2: Too many authentication failures", False, "credentials", "IdentitiesOnly"),
    (
        "System is going down. Unprivileged users are not permitted to log in anymore.",
        False,
        "unreachable",
        "as root on h1: rm /run/nologin",
    ),
    ("kex_exchange_identification: read: Connection reset by peer", False, "unreachable", "MaxStartups"),
    ("Missing sudo password", True, "become", "-K"),
    ("password:Sorry, try again.", False, "become", "give it again"),
    ("Incorrect sudo password", True, "become", "-K"),
    ("sudo: a password is required", True, "become", "NOPASSWD"),
    ("sudo: a terminal is required to read the password; either use the -S option", True, "become", "-K"),
    ("sudo: sorry, you must have a tty to run sudo", True, "become", "'Defaults:USER !requiretty'"),
    ("ops is not in the sudoers file.  This incident will be reported.", True, "become", "no password helps"),
    ("Sorry, user ops is not allowed to execute '/bin/sh' as root on h1.", True, "become", "no password helps"),
    ("ssh: Could not resolve hostname h1: Name or service not known", False, "unreachable", "ansible_host"),
    ("ssh: connect to host 10.0.0.5 port 22: Connection refused", False, "unreachable", "correct ansible_port of h1"),
    ("ssh: connect to host 10.0.0.5 port 22: No route to host", False, "unreachable", "check that it is up:"),
    ("Connection timed out during banner exchange", False, "unreachable", "check that it is up:"),
    ("/bin/sh: 1: exec: /usr/libexec/platform-python: not found", True, "python", "install Python 3.9"),
    ("dash: 1: exec: /opt/py/bin/python3.12: not found", True, "python", "ansible_python_interpreter"),
    ("bash: line 1: /usr/libexec/platform-python: No such file or directory", True, "python", "on h1"),
    ("bash: line 1: /opt/python3: cannot execute: No such file or directory", True, "python", "Python"),
    ("SyntaxError: future feature annotations is not defined", True, "python", "Python 3.9"),
    ("PermissionError: [Errno 13] Permission denied: '/var/lib/ddp-play'", True, "other", ""),
    ("OSError: [Errno 28] No space left on device", True, "other", "free some space on h1: df -h there"),
    ("", False, "unreachable", "check that it is up:"),
]


@pytest.mark.parametrize(("text", "reached", "kind", "hint"), SAID, ids=[row[0][-48:] for row in SAID])
def test_errors_of_connections_have_kind_and_hint(text: str, reached: bool, kind: str, hint: str) -> None:
    problem = host_problems.problem_from_text("h1", text, "10.0.0.5", reached=reached)
    assert (problem["host"], problem["kind"]) == ("h1", kind)
    assert hint in problem["hint"]
    assert "@@@" not in problem["message"]
    assert problem["message"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("it did not answer within 150 s", "ssh 10.0.0.5, there timeout 5 df -h"),
        (
            "the program on the host did not finish 'facts' within 120 s: it was still at the GPUs",
            "DDP_PLAY_ANSWER_S=600",
        ),
        ("it sent more than 16 MiB instead of an answer", "ssh 10.0.0.5 true | head"),
    ],
)
def test_a_host_at_its_limits_has_a_remedy(text: str, hint: str) -> None:
    problem = host_problems.problem_from_text("h1", text, "10.0.0.5", reached=True)
    assert (problem["host"], problem["message"]) == ("h1", text)
    assert hint in problem["hint"]


def test_a_given_hint_is_kept() -> None:
    problem = host_problems.problem_from_text("h1", "Python 3.8.1 is too old", "h1", reached=True, hint="3.9 or newer")
    assert (problem["kind"], problem["hint"]) == ("other", "3.9 or newer")


def test_a_long_message_keeps_its_end() -> None:
    problem = host_problems.problem_from_text("h1", "blah\n" * 500 + "the point", "h1")
    assert len(problem["message"]) == 400
    assert problem["message"].endswith("the point")


def test_a_connection_gets_no_remedy_of_tasks() -> None:
    problem = host_problems.problem_from_text("h1", "Could not get lock lock-frontend", "h1", reached=True)
    assert (problem["kind"], problem["hint"]) == ("other", "")


def test_every_remedy_can_be_filled() -> None:
    for row in KNOWN_PROBLEMS:
        groups = dict.fromkeys(re.compile(row.pattern).groupindex, "it")
        values = {**host_problems._values(row, "", host="h1", address="10.0.0.5", role="nccl"), **groups}
        assert "{" not in row.remedy.format(**values) + row.message.format(**values)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "h1"),
        ({"port": 22, "user": None}, "h1"),
        ({"port": 2222, "user": "ops", "key": "/k/a b"}, "-p 2222 -i '/k/a b' ops@h1"),
        ({"args": "-o UserKnownHostsFile=/k/known -J jump"}, "-o UserKnownHostsFile=/k/known -J jump h1"),
    ],
)
def test_the_words_of_a_login_by_hand(given: dict[str, Any], words: str) -> None:
    assert host_problems.ssh_words("h1", **given) == words


def test_keys_of_a_host_on_another_port_are_read_from_there_and_go_where_ssh_looks() -> None:
    words = host_problems.ssh_words("10.0.0.5", port=2222, user="ops", args="-o UserKnownHostsFile=/k/known")
    problem = host_problems.problem_from_text("h1", "Host key verification failed.", words)
    assert "ssh-keyscan -p 2222 10.0.0.5 >> /k/known;" in problem["hint"]
    changed = CHANGED_KEY.replace("Host key for 10.0.0.5", "Host key for [10.0.0.5]:2222")
    problem = host_problems.problem_from_text("h1", changed, words)
    assert (
        "ssh-keygen -f /home/ops/.ssh/known_hosts -R '[10.0.0.5]:2222' && ssh-keyscan -p 2222 10.0.0.5"
        in problem["hint"]
    )
    assert problem["message"].startswith("its SSH host key is not the known one")


@pytest.mark.parametrize(
    ("file", "written"),
    [("/k/known", "/k/known"), ("/a b/known", "'/a b/known'"), ("~/a b/known", "~/'a b/known'")],
)
def test_a_file_of_host_keys_is_one_word_for_the_shell(file: str, written: str) -> None:
    words = host_problems.ssh_words("h1", args=f"-o 'UserKnownHostsFile={file}'")
    problem = host_problems.problem_from_text("h1", "Host key verification failed.", words)
    assert f"ssh-keyscan h1 >> {written};" in problem["hint"]


def test_an_open_quote_in_the_arguments_of_ssh_is_no_failure_of_its_own() -> None:
    assert host_problems.ssh_words("h1", args="-o 'User=x") == "-o ''\"'\"'User=x' h1"
