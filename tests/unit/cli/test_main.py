"""The command itself."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from typer.testing import CliRunner

from ddp_play.cli.main import app


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"ddp-play {version('ddp-play')}\n")


def test_an_unknown_verb_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["launch"]).exit_code == 2


def test_a_verb_imports_only_its_own_modules() -> None:
    code = "import sys; from ddp_play.cli.main import app; app(['results', '--help'], standalone_mode=False); "
    code += "print(*(name for name in sys.modules if name.startswith('ddp_play.cli.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found = set(done.stdout.splitlines()[-1].split())
    assert "ddp_play.cli.results" in found
    assert not {"ddp_play.cli.lab", "ddp_play.cli.image", "ddp_play.cli.run"} & found
