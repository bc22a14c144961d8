"""Routes to hosts, as they are stored."""

from __future__ import annotations

from ddp_play.engines.route import Route

SSH = Route("h1", ("/usr/bin/ssh", "-o", "ControlPath=/x", "h1"), "run me", "password:", "OK")


def test_routes_survive_json() -> None:
    assert Route.from_json(SSH.to_json()) == SSH
    assert Route.from_json({**SSH.to_json(), "argv": ["ssh"]}).argv == ("ssh",)


def test_a_login_with_a_password_is_kept_in_the_route_and_the_password_is_not() -> None:
    asks = Route("h1", ("ssh", "h1"), "run me", asks_password=True)
    assert Route.from_json(asks.to_json()) == asks
    assert "asks_password" not in SSH.to_json(), "an earlier version reads the routes that it knows"


def test_the_program_is_named_without_its_directory() -> None:
    assert SSH.program == "ssh"
    assert Route("h1", ("/bin/sh", "-c"), "run me").program == "sh"
    assert Route("h1", (), "run me").program == ""
