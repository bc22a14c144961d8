"""Connections and datagrams between a listener and its peers, on this machine."""

from __future__ import annotations

import socket
from typing import Any

from ddp_play.guard.peer_probe import Listener, connect_all, path_mtus

HERE = "127.0.0.1"
WORD = "0123456789abcdef" * 2


def peer(listener: Listener, **more: Any) -> dict[str, Any]:
    own = {"ports": listener.ports + listener.chosen, "datagram_port": listener.datagram_port}
    return {"name": "h2", "address": HERE, "word": WORD, "mtu": 1500, **own, **more}


def test_all_ports_connect_and_large_packets_arrive() -> None:
    listener = Listener(HERE, [], WORD)
    try:
        assert len(listener.chosen) == 2
        assert connect_all([peer(listener)], HERE, 20.0) == []
        found = path_mtus([peer(listener)], HERE, 20.0)["h2"]
        assert (found["small"], found["large"]) == (True, True)
    finally:
        listener.close()
    refused = connect_all([peer(listener)], HERE, 20.0)
    assert [row["result"] for row in refused] == ["refused", "refused"]


def test_the_ports_are_free_at_once_for_programs_without_reuse_of_addresses() -> None:
    listener = Listener(HERE, [], WORD)
    assert connect_all([peer(listener)], HERE, 20.0) == []
    listener.close()
    for port in listener.chosen:
        with socket.socket() as sock:
            sock.bind((HERE, port))


def test_another_machine_that_answers_is_noticed() -> None:
    listener = Listener(HERE, [], "f" * 32)
    try:
        found = connect_all([peer(listener)], HERE, 20.0)
        assert {row["result"] for row in found} == {"another machine"}
        assert path_mtus([peer(listener)], HERE, 0.3)["h2"]["small"] is False
    finally:
        listener.close()


def test_a_port_that_is_taken_is_told_and_not_tested() -> None:
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        listener = Listener(HERE, [port], WORD)
        listener.close()
    assert list(listener.taken) == [port]
    assert listener.ports == []


def test_a_listener_that_never_answers_is_a_timeout() -> None:
    with socket.create_server((HERE, 0)) as silent:
        row = {"name": "h2", "address": HERE, "word": WORD, "ports": [silent.getsockname()[1]]}
        assert [found["result"] for found in connect_all([row], HERE, 0.3)] == ["timeout"]


def test_an_address_that_is_not_this_host_cannot_be_the_source() -> None:
    row = {"name": "h2", "address": HERE, "word": WORD, "ports": [9]}
    assert connect_all([row], "203.0.113.1", 1.0)[0]["result"] == "Cannot assign requested address"
    assert connect_all([], HERE, 1.0) == []
