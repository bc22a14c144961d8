"""A listener for one connection: it is there once the module has answered, and gone after a connection or its time."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import port_listener

from tests.unit.modules.module_process import FORKER
from tests.unit.modules.stand_in import accepted, documented

LINKS = """[
 {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "addr_info": [{"local": "127.0.0.1", "scope": "host"}]},
 {"ifname": "eth0", "flags": ["UP"], "addr_info": [{"local": "10.1.0.2", "scope": "global"},
  {"local": "fe80::1", "scope": "link"}, {"local": "fd00::2", "scope": "global"}]},
 {"ifname": "eth1", "flags": [], "addr_info": [{"local": "10.2.0.2", "scope": "global"}]}]"""


def answer(**arguments: Any) -> dict[str, Any]:
    return FORKER.answer(port_listener.__file__, arguments)


def connects(port: int, family: socket.AddressFamily = socket.AF_INET) -> bool:
    with socket.socket(family) as one:
        return one.connect_ex(("::1" if family == socket.AF_INET6 else "127.0.0.1", port)) == 0


def wait_until_closed(port: int) -> None:
    deadline = time.monotonic() + 20
    while connects(port):
        assert time.monotonic() < deadline, f"port {port} stays open"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "family", [socket.AF_INET, *([socket.AF_INET6] if socket.has_dualstack_ipv6() else [])], ids=lambda one: one.name
)
def test_one_connection_is_accepted(family: socket.AddressFamily) -> None:
    found = answer(ports="29400-29999")
    assert 29400 <= found["port"] <= 29999
    assert found["changed"] is False
    assert connects(found["port"], family)
    wait_until_closed(found["port"])


def test_without_a_connection_the_listener_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(ports="29400-29999", timeout_s=0)
    wait_until_closed(found["port"])


def test_a_port_that_is_taken_is_not_used() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        found = answer(ports=f"{port}-{port}")
    assert found["failed"]
    assert found["msg"] == f"no port of {port}-{port} is free on this host: ss -tlnp shows who listens"


@pytest.mark.parametrize(("text", "found"), [("", []), ("[]", []), (LINKS, ["10.1.0.2", "fd00::2"])])
def test_addresses(text: str, found: list[str]) -> None:
    assert port_listener.addresses(text) == found


def test_the_argument_spec_is_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, port_listener) == documented(port_listener)
