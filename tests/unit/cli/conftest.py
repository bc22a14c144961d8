"""Fixtures of the verbs' tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

_read: dict[tuple[Any, ...], subprocess.CompletedProcess[str]] = {}


@pytest.fixture
def inventory_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """ansible-inventory reads each content once, in half a second of CPU; tests with the same one share its answer."""

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        words = [Path(word).read_text(encoding="utf-8") if Path(word).is_file() else word for word in command[1:]]
        key = tuple(words)
        if key not in _read:
            _read[key] = subprocess.run(command, check=False, **{k: v for k, v in options.items() if k != "check"})
        return _read[key]

    found = SimpleNamespace(**{**vars(subprocess), "run": run})
    monkeypatch.setattr("ddp_play.provisioning.inventory.subprocess", found)
