"""The error among the warnings that Ansible prints before it."""

from __future__ import annotations

import pytest

from ddp_play.ansible.error_output import MAX_LINES, error_text

WARNINGS = "[WARNING]: Invalid characters were found in group names but not replaced, use -vvvv to see\ndetails\n"
OLD = "ERROR! Syntax Error while loading YAML.\n  found a tab"
NEW = "[ERROR]: the role 'x' was not found\nOrigin: /job.yml:4:7\n"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("", ""),
        (NEW, NEW.strip()),
        (WARNINGS + NEW, NEW.strip()),
        (WARNINGS + OLD + "\n", OLD),
        ("[WARNING]: no inventory\nplain words\n", "plain words"),
        ("[ERROR]: first\n[ERROR]: second", "[ERROR]: first\n[ERROR]: second"),
    ],
    ids=["nothing", "error", "after warnings", "older", "no mark", "two"],
)
def test_the_first_error(output: str, text: str) -> None:
    assert error_text(output) == text


def test_a_long_output_is_cut() -> None:
    assert error_text(NEW + "more\n" * 50).count("\n") == MAX_LINES - 1
    assert error_text("line\n" * 50).count("\n") == MAX_LINES - 1
