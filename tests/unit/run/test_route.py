"""Routes to hosts, as they are stored and as channels use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.run.route import Route

if TYPE_CHECKING:
    from pathlib import Path

SSH = Route("h1", ("ssh", "-o", "ControlPath=/x", "h1"), "run me", "password:", "OK")


def test_routes_survive_json() -> None:
    assert Route.from_json(SSH.to_json()) == SSH
    assert Route.from_json({**SSH.to_json(), "argv": ["ssh"]}).argv == ("ssh",)


def test_a_fresh_route_avoids_the_shared_master() -> None:
    fresh = SSH.fresh()
    assert fresh.argv.index("ControlPath=none") < fresh.argv.index("ControlPath=/x"), "ssh takes the first value"
    assert fresh.argv[-1] == "h1"
    assert (fresh.command, fresh.become_prompt, fresh.become_success) == ("run me", "password:", "OK")


def test_a_login_with_a_password_is_kept_in_the_route_and_the_password_is_not() -> None:
    asks = Route("h1", ("ssh", "h1"), "run me", asks_password=True)
    assert Route.from_json(asks.to_json()) == asks
    assert asks.fresh().asks_password
    assert "asks_password" not in SSH.to_json(), "an earlier version reads the routes that it knows"


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_route_whose_control_directory_is_gone_does_without_the_shared_master(tmp_path: Path, quote: str) -> None:
    """A logout removes the runtime directory of the user."""
    there = Route("h1", ("ssh", "-o", f"ControlPath={quote}{tmp_path}/abc{quote}", "h1"), "run me")
    gone = Route("h1", ("ssh", "-o", f"ControlPath={quote}{tmp_path}/cp/abc{quote}", "h1"), "run me")
    assert there.usable() == there
    assert gone.usable() == gone.fresh()
    assert "ControlPath=none" in gone.interactive("top", terminal=True)
    assert there.interactive("top", terminal=True) == ["ssh", "-t", *there.argv[1:], "top"]


def test_a_local_route_is_always_fresh() -> None:
    local = Route("h1", ("/bin/sh", "-c"), "run me")
    assert local.fresh() == local
    assert local.interactive("id", terminal=True) == ["/bin/sh", "-c", "id"]
    assert SSH.interactive("id", terminal=False) == ["ssh", "-o", "ControlPath=/x", "h1", "id"]
    assert SSH.interactive("id", terminal=True) == ["ssh", "-t", "-o", "ControlPath=/x", "h1", "id"]
