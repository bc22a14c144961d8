"""The file with the command of a playbook keeps the names of the environment, and no value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ddp_play.ansible.command_file import MASK, CommandFileRedactor

if TYPE_CHECKING:
    from pathlib import Path


def test_values_are_masked_once_and_at_the_end(tmp_path: Path) -> None:
    command = tmp_path / "command"
    redactor = CommandFileRedactor(command)
    redactor.redact()  # it is not there yet
    for final, kept in ((False, MASK), (False, "later"), (True, MASK)):
        command.write_text(json.dumps({"command": ["ansible-playbook"], "env": {"TOKEN": "later"}}))
        redactor.redact(final=final)
        assert json.loads(command.read_text()) == {"command": ["ansible-playbook"], "env": {"TOKEN": kept}}


def test_a_file_that_is_half_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    command = tmp_path / "command"
    redactor = CommandFileRedactor(command)
    command.write_text('{"env": {"TOKEN": ')
    redactor.redact()
    command.write_text('{"env": {"TOKEN": "secret"}}')
    redactor.redact()
    assert "secret" not in command.read_text()
