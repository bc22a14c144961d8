"""Network facts: what tc says, as data."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ddp_play.guard import interfaces
from ddp_play.guard.interfaces import counters, parse_shaping


def test_a_token_bucket_at_the_root_is_the_speed() -> None:
    text = (
        '[{"kind":"tbf","dev":"eth0","root":true,"options":{"rate":25000000}},'
        '{"kind":"noqueue","dev":"eth1","root":true,"options":{}},{"kind":"tbf","dev":"eth2","options":{"rate":125}}]'
    )
    assert parse_shaping(text) == {"eth0": 200}
    assert parse_shaping("[]") == {}


IPV4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
IPV6 = "".join(
    f"{destination} {prefix} {'0' * 32} 00 {'0' * 32} 00000400 00000001 00000000 00000001 {name}\n"
    for destination, prefix, name in (
        ("20010db8" + "0" * 24, "40", "eth0"),
        ("0" * 32, "00", "lo"),
        ("0" * 32, "00", "eth1"),
    )
)


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "name"),
    [
        (IPV4 + "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n", IPV6, "eth0"),
        (IPV4 + "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n", IPV6, "eth1"),
        (IPV4, "", None),
        ("", "", None),
    ],
    ids=["IPv4 first", "IPv6 where IPv4 has none", "no default route", "no files"],
)
def test_the_interface_of_the_default_route(
    ipv4: str, ipv6: str, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant, text in (("ROUTES", ipv4), ("ROUTES6", ipv6)):
        path = tmp_path / constant
        if text:
            path.write_text(text)
        monkeypatch.setattr(interfaces, constant, path)
    assert interfaces.default_route_interface() == name


def test_counters_move_with_the_bytes() -> None:
    before = counters()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            sender.sendall(bytes(100_000))
            left = 100_000
            while left:
                left -= len(receiver.recv(left))
    after = counters()
    assert after["lo"]["tx"] - before["lo"]["tx"] >= 100_000
    assert not [name for name in after if name.startswith("veth")]
