"""`--help` of every verb against golden text: what a user reads is looked at when it changes.

To take over a wanted change: `python -m tests.golden`, then read the diff.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer import rich_utils
from typer.core import TyperGroup
from typer.testing import CliRunner

from ddp_play.cli.main import app

GOLDEN = Path(__file__).parent / "golden" / "help"
WIDTH = 100


def verbs(group: TyperGroup | None = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group, as words after `ddp-play`; the command itself first."""
    if group is None:
        found = typer.main.get_command(app)
        assert isinstance(found, TyperGroup)
        group = found
    yield path
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name)


@functools.cache
def help_text(words: tuple[str, ...]) -> str:
    """The help of a verb, without colours, at a fixed width."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"COLUMNS": str(WIDTH), "TERM": "dumb", "NO_COLOR": "1", "LINES": "50"}.items():
            patch.setenv(name, value)
        for name, setting in {"MAX_WIDTH": WIDTH, "FORCE_TERMINAL": False, "COLOR_SYSTEM": None}.items():
            patch.setattr(rich_utils, name, setting)
        done = CliRunner().invoke(app, [*words, "--help"], prog_name="ddp-play")
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.output.splitlines()) + "\n"


def golden_file(words: tuple[str, ...]) -> Path:
    """Where the text of a verb is kept."""
    return GOLDEN / ("-".join(("ddp-play", *words)) + ".txt")


VERBS = list(verbs())


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words) or "ddp-play")
def test_help(words: tuple[str, ...]) -> None:
    assert help_text(words) == golden_file(words).read_text(encoding="utf-8")


def test_no_help_of_a_verb_that_is_gone() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {golden_file(words).name for words in VERBS}


@pytest.mark.parametrize("words", [words for words in VERBS if len(words) == 1], ids=" ".join)
def test_every_verb_says_what_it_does(words: tuple[str, ...]) -> None:
    lines = [line.strip() for line in help_text(words).splitlines() if line.strip()]
    assert lines[0].startswith("Usage: ddp-play")
    assert len(lines[1]) > 20
