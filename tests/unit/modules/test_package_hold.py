"""Which packages change when a hold is asked for."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.modules import package_hold

INSTALLED = {"libcuda1": {"version": "1", "held": True}, "nvidia-smi": {"version": "1", "held": False}}


@pytest.mark.parametrize(
    ("installed", "hold", "names"),
    [
        (INSTALLED, True, ["nvidia-smi"]),
        (INSTALLED, False, ["libcuda1"]),
        ({"libcuda1": {"version": "1", "held": True}}, True, []),
        ({}, True, []),
    ],
)
def test_to_change(installed: dict[str, dict[str, object]], hold: bool, names: list[str]) -> None:
    assert package_hold.to_change(installed, hold) == names
