"""Programs on PATH, compared with shutil.which."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import programs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "found"), [("a:b", "b"), ("b:c", "b"), ("c:b", "c"), ("a", None), ("missing:b", "b"), ("d:a", None)]
)
def test_the_first_program_of_the_name_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, found: str | None
) -> None:
    """In `a` is a file that nobody can run, in `d` a directory of the name."""
    for folder, mode in (("a", 0o644), ("b", 0o755), ("c", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").touch(mode)
        (tmp_path / folder / "tool").chmod(mode)
    (tmp_path / "d" / "tool").mkdir(parents=True)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / folder) for folder in path.split(":")))
    assert programs.which("tool") == shutil.which("tool") == (found and str(tmp_path / found / "tool"))
