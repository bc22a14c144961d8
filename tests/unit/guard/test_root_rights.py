"""May the user become root: with stand-ins for sudo that answer as sudo does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import root_rights

if TYPE_CHECKING:
    from pathlib import Path

ASKS = "#!/bin/sh\n[ \"$1\" = -n ] && { echo lecture >&2; echo 'sudo: a password is required' >&2; exit 1; }\nexit 0\n"


@pytest.fixture
def ordinary_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Not root, and a directory that is all of PATH but the shell's."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (None, "sudo is not installed"),
        ("#!/bin/sh\nexit 0\n", ""),
        (ASKS, "sudo: a password is required"),
        ("#!/bin/sh\nexit 9\n", "sudo -n true exits with 9"),
    ],
)
def test_what_sudo_says_is_the_problem(ordinary_user: Path, program: str | None, problem: str) -> None:
    if program is not None:
        sudo = ordinary_user / "sudo"
        sudo.write_text(program)
        sudo.chmod(0o755)
    assert root_rights.problem() == problem


def test_a_sudo_that_hangs_costs_its_limit_only(ordinary_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sudo = ordinary_user / "sudo"
    sudo.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    sudo.chmod(0o755)
    monkeypatch.setattr(root_rights, "LIMIT_S", 0.2)
    assert root_rights.problem() == "sudo did not answer within 0.2 s"


def test_root_needs_no_sudo(ordinary_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert root_rights.problem() == ""
