"""`dcgmi diag` on a host: its output, its limit, and that it is stopped before it is killed. dcgmi is a script here."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import dcgm_diagnostic as module
from ddp_play.guard.bounded_reading import NotReadableHere

if TYPE_CHECKING:
    from pathlib import Path


def dcgmi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "dcgmi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_host_without_dcgmi_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module.installed() == ""
    with pytest.raises(NotReadableHere, match="no dcgmi"):
        module.run(1, 5.0, 1.0)


def test_output_errors_and_exit_code_are_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dcgmi(tmp_path, 'echo "$LC_ALL $*"; echo wrong >&2; exit 226', monkeypatch)
    assert module.installed() == str(tmp_path / "dcgmi")
    assert module.run(2, 20.0, 1.0) == {"exit_code": 226, "output": "C diag -r 2 -j\n", "errors": "wrong\n"}


def test_at_its_limit_it_may_stop_the_diagnostic_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dcgmi that is killed at once leaves its diagnostic running on the GPUs."""
    dcgmi(tmp_path, f"trap 'echo stopped > {tmp_path}/said; exit 1' TERM\nwhile :; do sleep 0.05; done", monkeypatch)
    found = module.run(1, 0.5, 10.0)
    assert found["problem"] == "no end within 0.5 s"
    assert (tmp_path / "said").read_text() == "stopped\n"


def test_one_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dcgmi(tmp_path, "trap '' TERM\nwhile :; do sleep 0.05; done", monkeypatch)
    began = time.monotonic()
    assert module.run(1, 0.3, 0.3)["problem"] == "no end within 0.3 s, and it could not be stopped"
    assert time.monotonic() - began < 10.0
