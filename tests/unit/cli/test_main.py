"""The command itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddp_play.cli.main import app, flowing
from ddp_play.cli.verbs import VERBS

from .own_process import run_command, unread_pipe

ROOT = Path(__file__).resolve().parents[3]


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"ddp-play {version('ddp-play')}\n")


def test_the_installed_command_prints_the_version_before_it_imports_typer() -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["ddp-play"]
    module, function = entry.split(":")
    code = f"import sys; sys.argv = ['ddp-play', '--version']; from {module} import {function}; {function}(); "
    code += "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'ddp_play', 'typer', 'click', 'rich'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [f"ddp-play {version('ddp-play')}", "ddp_play"]


WRONG = {
    "runn": "no such command 'runn'. Did you mean 'run'",
    "launch": "no such command 'launch'",
    "--nope": "no such option: --nope",
    "inventory chek": "no such command 'chek'. Did you mean 'check'?",
    "inventory check --nope": "no such option: --nope",
    "stop": "missing argument 'run_id'",
    "image load": "missing option '--inventory'",
    "lab up --hosts two": "invalid value for '--hosts': ",
    "run --limt gpu03": "no such option: --limt (Possible options: --limit, --",
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


# Command line -> modules that it imports, and modules that it does not.
IMPORTS = {
    "--help": ({"ddp_play.cli.verbs"}, {"ddp_play.cli.options", "ddp_play.cli.run", "pydantic", "yaml"}),
    "results --help": ({"ddp_play.cli.results"}, {"ddp_play.cli.lab", "ddp_play.cli.run", "pydantic", "yaml"}),
    "ps": ({"ddp_play.cli.ps"}, {"ddp_play.run", "ddp_play.planning.job", "yaml", "typer.rich_utils"}),
}


@pytest.mark.parametrize("words", IMPORTS)
def test_a_verb_imports_only_what_it_needs(words: str) -> None:
    code = f"import sys; from ddp_play.cli.main import app; app({words.split()!r}, standalone_mode=False); "
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found = set(done.stdout.splitlines()[-1].split())
    needed, others = IMPORTS[words]
    assert (needed - found, others & found) == (set(), set())


def test_a_run_imports_nothing_but_what_starts_its_background_process(tmp_path: Path) -> None:
    """pydantic is not among them: typer reads every option that has a value with it."""
    playbook = tmp_path / "train.yml"
    playbook.touch()
    words = ["run", str(playbook), "-i", "h1,", "-d"]
    code = "import sys, ddp_play.cli.run; ddp_play.cli.run.start_background = lambda *_: ''; "
    code += f"from ddp_play.cli.main import app; app({words!r}, standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found = set(done.stdout.splitlines()[-1].split())
    others = {"jinja2", "yaml", "ansible_runner", "ddp_play.planning.job", "ddp_play.planning.slurm_settings"}
    others |= {"ddp_play.run.dry_run", "ddp_play.run.job_reading", "ddp_play.cli.engine_job", "ddp_play.cli.plan"}
    assert others & found == set()
    assert "ddp_play.run.submission" in found


def test_a_paragraph_of_the_help_is_folded_by_the_terminal() -> None:
    text = "One.\n\nTwo\nthree.\n\n[bold]Examples[/]\n\n  ddp-play run\n\n  ddp-play ps\n  ddp-play top"
    assert flowing(text) == "One.\n\nTwo three.\n\n[bold]Examples[/]\n\n  ddp-play run\n\n  ddp-play ps\n  ddp-play top"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("check", "What could not be checked never counts as passed."),
        ("image load", "If the controller does not have the image, it is built with --build"),
        ("", "70 ddp-play itself failed, 75 busy"),
    ],
)
def test_on_a_wide_terminal_a_sentence_of_the_help_is_on_one_line(words: str, sentence: str) -> None:
    done = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "400", "TERM": "dumb"})
    assert sentence in done.output


@pytest.mark.parametrize("words", ["--help", "run --help", "lab up --help"])
def test_help_whose_reader_has_ended_is_no_failure(words: str) -> None:
    """`ddp-play run --help | head -1` ended with 1."""
    with unread_pipe() as pipe:
        done = run_command(*words.split(), stdout=pipe)
    assert (done.returncode, done.stderr) == (0, b"")
