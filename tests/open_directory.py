"""A directory that every user of the machine can enter.

The temporary directories of pytest let in nobody but their user, and each start of pytest closes them again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["open_directory"]


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Empty at the start, removed with all that is in it at the end."""
    with tempfile.TemporaryDirectory(prefix="ddp-play-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)
