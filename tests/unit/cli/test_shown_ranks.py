"""Ranks that a view is to show, and that the run does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from ddp_play.bundle.paths import write_json
from ddp_play.cli.main import app
from ddp_play.cli.shown_ranks import check_form, unknown_ranks
from ddp_play.errors import UsageError
from tests.unit.cli.run_directories import make_run

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths


def planned() -> RunPaths:
    paths = make_run(status="succeeded")
    write_json(paths.plan, {"kinds": [], "hosts": [{"name": "h1", "first_rank": 0, "num_ranks": 3}]})
    return paths


@pytest.mark.parametrize("text", ["0", "0,3", "all", "none"])
def test_forms(text: str) -> None:
    check_form(text)


@pytest.mark.parametrize("text", ["", "x", "0-3", "1,", "-1", "All"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--ranks is"):
        check_form(text)


@pytest.mark.parametrize("verb", ["attach calm-otter-1", "run"])
def test_verbs_refuse_them_before_anything_else(verb: str) -> None:
    planned()
    assert CliRunner().invoke(app, [*verb.split(), "--ranks", "first"]).exit_code == 64


def test_attach_names_the_ranks_of_the_run() -> None:
    paths = planned()
    assert unknown_ranks("0,2", paths) == unknown_ranks("all", paths) == ""
    assert unknown_ranks("0,7,9", paths) == "--ranks: run calm-otter-1 has ranks 0 to 2, not 7, 9"
    write_json(paths.attempt(1).plan, {"hosts": []})
    assert unknown_ranks("7", paths.attempt(1)) == "", "a plan of an earlier version"
    result = CliRunner().invoke(app, ["attach", "calm-otter-1", "--ranks", "7"])
    assert (result.exit_code, "not 7" in result.stderr) == (64, True)
