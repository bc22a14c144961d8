"""The error among the warnings that Ansible prints before it."""

from __future__ import annotations

import pytest

from ddp_play.ansible.error_output import (
    MAX_LINES,
    error_text,
    refused_values,
    start_remedy,
    unparsed_inventory,
    vault_remedy,
)

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


def test_a_broken_inventory_is_told_by_file_and_line() -> None:
    warning = (
        "[WARNING]: Failed to parse inventory with 'auto' plugin: YAML parsing failed: a tab.\n\n<<< caused by >>>\n\n"
    )
    warning += "YAML parsing failed: a tab.\nOrigin: /site/hosts.yml:4:7\n\n4   x\n"
    other = "YAML parsing failed: a tab.\nOrigin: <inventory plugin 'yaml' with source '/site/hosts.yml'>\n"
    words = "/site/hosts.yml:4:7: YAML parsing failed: a tab."
    assert error_text(warning + other + "[ERROR]: Completely failed to parse inventory source /site/hosts.yml") == words
    assert (
        unparsed_inventory(other + warning + "[WARNING]: Unable to parse /site/hosts.yml as an inventory source")
        == words
    )
    assert unparsed_inventory(warning) == ""  # another plugin could read it
    assert unparsed_inventory(other + "[WARNING]: Unable to parse /site/hosts.yml as an inventory source") == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[ERROR]: YAML parsing failed: x\nOrigin: /site/job.yml:5:3", "correct /site/job.yml at line 5"),
        ("/site/hosts.yml:4:7: YAML parsing failed: x", "correct /site/hosts.yml at line 4"),
        ("--limit leaves us with no hosts to target.", "ansible-inventory --graph -i INVENTORY"),
        ("The vault password file /x was not found", "correct --vault-password-file"),
        ("the role 'ddp.play.ddp_jobs' was not found in /x", "ddp.play.ddp_job"),
        ("the role 'site' was not found in /x", "roles/"),
        ("something else", ""),
    ],
)
def test_remedies_of_playbooks_that_do_not_start(text: str, words: str) -> None:
    assert words in start_remedy(text)
    assert bool(words) == bool(start_remedy(text))


@pytest.mark.parametrize(
    ("failures", "found"),
    [
        ([], None),
        ([("h1", "no route", False)], None),
        ([("h1", "bad x", True), ("h2", "bad x", True)], "bad x"),
        ([("h1", "no route", False), ("h2", "Decryption failed", False)], "h2: Decryption failed"),
    ],
)
def test_refused_values(failures: list[tuple[str, str, bool]], found: str | None) -> None:
    refused = refused_values(failures)
    assert (refused[0] if refused else None) == found


def test_a_missing_password_of_a_vault_is_not_a_wrong_one() -> None:
    assert "give the vault's password" in vault_remedy("Attempting to decrypt but no vault secrets found.")
    wrong = vault_remedy("Decryption failed (no vault secrets were found that could decrypt).")
    assert "another one" in wrong
    assert vault_remedy("no route") == ""
