"""Table of the verbs, and their summaries."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from ddp_play.cli.main import app
from ddp_play.cli.verbs import VERBS, Verb


@pytest.mark.parametrize("name", VERBS)
def test_the_list_shows_what_the_verbs_own_help_begins_with(name: str) -> None:
    """In the help and in completion; the list is made without an import of the verb."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    listed, own = group.get_command(typer.Context(group), name), group.commands[name]
    assert listed is not None
    assert own.help
    assert listed.help == own.help.partition("\n\n")[0].strip()
    for what in ("name", "short_help", "hidden", "deprecated", "rich_help_panel"):
        assert getattr(listed, what) == getattr(own, what), what
    assert listed.get_short_help_str() == own.get_short_help_str()


def test_a_verb_without_its_function_is_a_mistake_in_the_table() -> None:
    with pytest.raises(ValueError, match=r"stop\.py defines no halt"):
        Verb("Runs", "stop", "halt").summary()


def test_completion_of_a_verb_and_of_its_options() -> None:
    def complete(words: str) -> list[str]:
        given = {"_DDP_PLAY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return CliRunner().invoke(app, [], prog_name="ddp-play", env=given).stdout.split()

    assert complete("ddp-play st") == ["stop"]
    assert complete("ddp-play s") == ["session", "stop"]
    assert "--no-wait" in complete("ddp-play stop --")
    assert complete("ddp-play lab u") == ["up"]
