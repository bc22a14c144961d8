"""The command itself."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from ddp_play.cli.main import VERBS, app


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"ddp-play {version('ddp-play')}\n")


WRONG = {
    "runn": "no such command 'runn'. Did you mean 'run'?",
    "launch": "no such command 'launch'",
    "--nope": "no such option: --nope",
    "inventory chek": "no such command 'chek'. Did you mean 'check'?",
    "inventory check --nope": "no such option: --nope",
    "stop": "missing argument 'run_id'",
    "image load": "missing option '--inventory'",
    "lab up --hosts two": "invalid value for '--hosts': ",
    "run --limt gpu03": "no such option: --limt (Possible options: --limit, --wait)",
    "run -e": "option '-e' requires an argument",
    "run train.yml more.yml": "got unexpected extra argument(s) (more.yml)",
    "session --idl 3m": "no such option: --idl (Possible options: --",
    "": "no verb was given",
    "lab": "no verb was given",
}


@pytest.mark.parametrize("words", WRONG)
def test_what_typer_refuses_is_a_usage_error(words: str) -> None:
    done = CliRunner().invoke(app, words.split())
    first, second = done.stderr.splitlines()
    assert (done.exit_code, first[: len(f"error: {WRONG[words]}")]) == (64, f"error: {WRONG[words]}")
    assert re.fullmatch(r"  -> [\w-]+( \w+)* --help", second)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_an_unknown_option(verb: str) -> None:
    assert CliRunner().invoke(app, [verb, "--no-such-option"]).exit_code == 64


def test_a_verb_imports_only_its_own_modules() -> None:
    code = "import sys; from ddp_play.cli.main import app; app(['results', '--help'], standalone_mode=False); "
    code += "print(*(name for name in sys.modules if name.startswith('ddp_play.cli.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found = set(done.stdout.splitlines()[-1].split())
    assert "ddp_play.cli.results" in found
    assert not {"ddp_play.cli.lab", "ddp_play.cli.image", "ddp_play.cli.run"} & found
