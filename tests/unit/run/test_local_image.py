"""A remedy that copies an image from this machine, where it is, where it is not, and where nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.run import local_image
from ddp_play.run.local_image import is_here, judged

if TYPE_CHECKING:
    from pathlib import Path

HINT = "correct ddp_job_image, or copy the image from here: ddp-play image load -i inv --limit h1 --image team/train:2"
FIRST = "this machine has no team/train:2 either: ddp-play image build --tag team/train:2, or docker pull team/train:2"


def docker(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A docker command that does this."""
    (directory / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "here"),
    [
        ("echo sha256:1", True),
        ("echo 'Error: No such image: team/train:2' >&2; exit 1", False),
        ("echo 'Error response from daemon: no such image: x' >&2; exit 1", False),
        ("echo 'Cannot connect to the Docker daemon' >&2; exit 1", None),
        ("sleep 30", None),
    ],
)
def test_what_the_engine_says(script: str, here: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_image, "TIMEOUT_S", 0.5)
    docker(tmp_path, monkeypatch, f"exec {script}" if script.startswith("sleep") else script)
    assert is_here("team/train:2") is here


def test_without_a_docker_command_it_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert is_here("team/train:2") is None
    assert judged(HINT) == HINT


@pytest.mark.parametrize(
    ("hint", "here", "more"),
    [
        (HINT, True, ""),
        (HINT, None, ""),
        (HINT, False, f"; {FIRST}, comes first"),
        (
            "ddp-play image load -i inv --image team/train:2, or name the image by its digest",
            False,
            f"; {FIRST}, comes first",
        ),
        ("mount it", False, ""),
        ("", False, ""),
    ],
)
def test_an_image_that_this_machine_lacks_too_comes_first(
    hint: str, here: bool | None, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy was to copy an image that was nowhere."""
    monkeypatch.setattr(local_image, "is_here", lambda image: here)
    assert judged(hint) == hint + more
    assert judged(judged(hint)) == hint + more
