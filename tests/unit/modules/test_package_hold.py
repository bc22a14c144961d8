"""Which packages change when a hold is asked for."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.modules import package_hold

from .stand_in import StandIn, play

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


@pytest.mark.parametrize(("patterns", "released"), [([], []), (["nano"], ["nano"])])
def test_without_a_pattern_nothing_is_released(
    monkeypatch: pytest.MonkeyPatch, patterns: list[str], released: list[str]
) -> None:
    """dpkg-query without a pattern lists all packages of the host, the held ones of the site too."""
    listing = "nano\t1\thi \n" + ("vim\t1\thi \n" if not patterns else "")
    host = StandIn(
        lambda argv: (0, listing if argv[0] == "dpkg-query" else "", ""), patterns=patterns, state="released"
    )
    monkeypatch.setattr(host, "run_command", lambda argv, **_options: (0, listing if "dpkg-query" in argv else "", ""))
    assert play(monkeypatch, package_hold, host)["packages"] == released
