"""The command itself."""

from __future__ import annotations

from importlib.metadata import version

from typer.testing import CliRunner

from ddp_play.cli.main import app


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"ddp-play {version('ddp-play')}\n")


def test_an_unknown_verb_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["launch"]).exit_code == 2
