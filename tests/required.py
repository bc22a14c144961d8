"""What a test does on a machine that lacks something it needs: it is skipped, or fails where that is required."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(need: str, reason: str) -> NoReturn:
    """Skip the test with the reason; DDP_PLAY_REQUIRE_<need>=1 makes that a failure."""
    variable = f"DDP_PLAY_REQUIRE_{need}"
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable} is set, but {reason}")
    pytest.skip(reason)
