"""The table of known problems: its order, and the placeholders of its texts."""

from __future__ import annotations

import re
import string

import pytest

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
