"""The process that forks modules ends with the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.modules.module_process import FORKER

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _forker() -> Iterator[None]:
    yield
    FORKER.close()
