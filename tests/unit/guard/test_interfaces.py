"""Network facts: what tc says, as data."""

from __future__ import annotations

import socket

from ddp_play.guard.interfaces import counters, parse_shaping


def test_a_token_bucket_at_the_root_is_the_speed() -> None:
    text = (
        '[{"kind":"tbf","dev":"eth0","root":true,"options":{"rate":25000000}},'
        '{"kind":"noqueue","dev":"eth1","root":true,"options":{}},{"kind":"tbf","dev":"eth2","options":{"rate":125}}]'
    )
    assert parse_shaping(text) == {"eth0": 200}
    assert parse_shaping("[]") == {}


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
