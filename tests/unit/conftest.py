"""Fixtures of all unit tests."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import guard_files

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    """The test leaves no descriptor open. Those of other tests' garbage may close meanwhile."""
    gc.collect()
    before = _open()
    yield
    gc.collect()  # an exception keeps what its frames had
    assert _open() - before == set()


@pytest.fixture
def patient_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may have all processors for longer than a reading of another guard's files has."""
    monkeypatch.setattr(guard_files, "LIMIT_S", 30.0)


def _open() -> set[tuple[str, str]]:
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of this listing
            found.add((path.name, str(path.readlink())))
    return found
