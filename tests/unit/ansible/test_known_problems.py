"""The table of known problems: its order, and the placeholders of its texts."""

from __future__ import annotations

import re
import string

import pytest

from ddp_play.ansible import host_problems
from ddp_play.ansible.known_problems import KNOWN_PROBLEMS, Kind, KnownProblem

PLACES = {"host", "user", "address", "role", "server", "another_source", "keyscan", "known_hosts"}


def first(text: str) -> KnownProblem:
    return next(row for row in KNOWN_PROBLEMS if re.search(row.pattern, text))


@pytest.mark.parametrize("row", KNOWN_PROBLEMS, ids=lambda row: row.pattern[:40])
def test_texts_have_known_places_only(row: KnownProblem) -> None:
    known = PLACES | set(re.compile(row.pattern).groupindex)
    used = {name for text in (row.remedy, row.message) for _, name, _, _ in string.Formatter().parse(text) if name}
    assert used <= known


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        # the first cause, before the denial that follows from it
        (
            "no such identity: /k: No such file\nops@h1: Permission denied (publickey).",
            "credentials",
            "does not exist here",
        ),
        ('Load key "/k": bad permissions\nops@h1: Permission denied (publickey).', "credentials", "chmod 600"),
        ("ops@h1: Permission denied (publickey).", "credentials", "ssh-copy-id"),
        (
            "Your account has expired; please contact your system administrator\nConnection closed",
            "credentials",
            "chage",
        ),
        (
            "WARNING: Your password has expired.\nPassword change required but no TTY available.",
            "credentials",
            "new one",
        ),
        (
            "Received disconnect: 2: Too many authentication failures\nPermission denied (publickey)",
            "credentials",
            "Ident",
        ),
        # a password does not make a sudoer
        ("ops is not in the sudoers file.", "become", "no password helps"),
        ("sudo: a password is required", "become", "-K"),
    ],
)
def test_the_first_cause_wins(text: str, kind: str, words: str) -> None:
    row = first(text)
    assert row.kind is Kind(kind)
    assert words in row.remedy


# The last words of ssh after any failure of its proxy.
PROXY_ENDED = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (f"kim@bastion: Permission denied (publickey).\r\n{PROXY_ENDED}", "credentials", "ssh-copy-id"),
        (
            f"channel 0: open failed: connect failed: No route to host\r\nstdio forwarding failed\r\n{PROXY_ENDED}",
            "unreachable",
            "check that it is up",
        ),
        (
            f"ssh: Could not resolve hostname bastion: Name or service not known\r\n{PROXY_ENDED}",
            "unreachable",
            "resolves here",
        ),
        (f"ssh: connect to host bastion port 22: Connection refused\r\n{PROXY_ENDED}", "unreachable", "start sshd"),
        ("kex_exchange_identification: banner line contains invalid characters", "unreachable", "check that it is up"),
        (PROXY_ENDED.replace("\r\n", " "), "unreachable", "check that it is up"),
    ],
)
def test_a_failed_jump_is_no_full_server(text: str, kind: str, words: str) -> None:
    problem = host_problems.problem_from_text("h1", text, "h1")
    assert problem["kind"] == kind
    assert words in problem["hint"]
    assert "MaxStartups" not in problem["hint"]


@pytest.mark.parametrize(
    "text",
    [
        "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.5 port 22",
        "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 10.0.0.9 port 22\r\n"
        + PROXY_ENDED,  # the jump host itself is full
        "Exceeded MaxStartups",
    ],
)
def test_a_server_that_ends_logins_is_full_or_bans(text: str) -> None:
    assert "MaxStartups" in host_problems.problem_from_text("h1", text, "h1")["hint"]
