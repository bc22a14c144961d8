"""A host's files for tests of the module `files`, which runs in the test's own process."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import files

from tests.unit.modules.stand_in import StandIn, play

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = {"owner": str(os.geteuid()), "group": str(os.getegid())}
OPTIONS: dict[str, Any] = {
    "content": "",
    "state": "present",
    "original": None,
    "recorded": False,
    "mode": None,
    "validate": [],
    **OWN,
}


class Site:
    """Files of a host below `etc`, the record, and the module."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.etc = folder / "etc"
        self.etc.mkdir()
        self.record = folder / "state" / "record.json"
        self.record.parent.parent.mkdir(exist_ok=True)
        self.answer: Callable[[list[str]], tuple[int, str, str]] = lambda _argv: (0, "", "")
        self.asked: list[list[str]] = []
        self._monkeypatch = monkeypatch

    def want(self, *wanted: dict[str, Any], check: bool = False) -> dict[str, Any]:
        """The module's answer for files below `etc`."""
        rows = [{**OPTIONS, **row, "path": str(self.etc / row["path"])} for row in wanted]
        host = StandIn(self.answer, files=rows, record=str(self.record))
        host.check_mode = check
        found = play(self._monkeypatch, files, host)
        self.asked = host.asked
        found["changed_paths"] = [os.path.relpath(path, self.etc) for path in found["changed_paths"]]
        return found

    def names(self) -> list[str]:
        """All paths below `etc`."""
        return sorted(str(path.relative_to(self.etc)) for path in self.etc.rglob("*"))

    def kept(self, name: str) -> str:
        """Path for an original."""
        return str(self.etc / name)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)
