"""Bundles of another version: an unknown number is refused with the version that wrote it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ddp_play
from ddp_play.bundle import format_version
from ddp_play.bundle.paths import home
from ddp_play.bundle.run_lookup import all_runs, find
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import OLDEST_PROTOCOL, PROTOCOL

if TYPE_CHECKING:
    from typing import Any


def written(document: dict[str, Any]) -> None:
    run = home() / "runs" / "night"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(document))


@pytest.mark.parametrize("number", range(OLDEST_PROTOCOL, PROTOCOL + 1))
def test_each_known_number_is_read(number: int) -> None:
    written({"status": "failed", "protocol": number})
    assert find("night").status == "failed"


def test_a_bundle_without_a_number_is_read() -> None:
    written({"status": "succeeded"})
    assert find("night").status == "succeeded"


@pytest.mark.parametrize("number", [PROTOCOL + 1, -1, "two", None, 1.5])
def test_an_unknown_number_is_refused_and_listed(number: Any) -> None:
    written({"status": "dreaming", "protocol": number, "version": "9.9", "controller": "login2"})
    with pytest.raises(UsageError, match=r"run night was written by ddp-play 9\.9 with protocol") as refused:
        find("night")
    assert "login2" in refused.value.hint
    (run,) = all_runs()
    assert run.status_text == "unknown"
    assert not run.over, "nothing says that its ranks have ended"


def test_what_this_version_writes_is_known() -> None:
    format_version.refuse_unknown_format("night", format_version.format_stamp())
    assert format_version.format_stamp()["protocol"] == PROTOCOL


def test_a_checkout_that_is_not_installed_has_a_version_too() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from ddp_play.bundle import format_version as f"
    argv = [sys.executable, "-I", "-S", "-c", f"{code}; print(f.format_stamp()['version'])"]
    source = Path(ddp_play.__file__).parents[1]
    done = subprocess.run([*argv, str(source)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ddp_play.__version__
