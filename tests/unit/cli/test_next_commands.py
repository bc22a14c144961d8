"""Commands to copy name the program and the state directory that the printing command had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ddp_play.cli.next_commands import as_word, ddp_play, program


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ddp-play that was called by its path."""
    path = tmp_path / "my bin" / "ddp-play"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.delenv("DDP_PLAY_HOME", raising=False)
    return path


def test_the_name_where_the_shell_finds_it(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    assert ddp_play("lab", "up", "--name", "a b") == "ddp-play lab up --name 'a b'"


def test_the_path_where_the_shell_finds_none_or_another_one(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert ddp_play("ps") == f"'{installed}' ps"
    other = installed.parents[1] / "ddp-play"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert program() == f"'{installed}'"


def test_a_relative_path_becomes_absolute(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(installed.parent)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["./ddp-play"])
    assert program() == f"'{installed}'"


@pytest.mark.usefixtures("installed")
def test_the_state_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "my bin"))
    monkeypatch.setenv("DDP_PLAY_HOME", "state")
    assert ddp_play("ps") == f"DDP_PLAY_HOME={tmp_path}/state ddp-play ps"


def test_a_module_that_is_run_has_the_usual_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/ddp_play/__main__.py"])
    assert program() == "ddp-play"


@pytest.mark.parametrize(
    ("path", "word"), [("a", "a"), ("a b", "'a b'"), ("-x", "./-x"), ("./-x y", "'./-x y'"), ("/-x", "/-x")]
)
def test_a_path_is_one_word_and_no_option(path: str, word: str) -> None:
    assert as_word(Path(path)) == word
