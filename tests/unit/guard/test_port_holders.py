"""Programs that listen on ports without a lease are named."""

from __future__ import annotations

import os
import socket

from ddp_play.guard import port_holders
from ddp_play.guard.run_directory import user_name


def listening() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen()
    return made


def test_nobody_on_a_port_is_no_words() -> None:
    with listening() as held:
        port = held.getsockname()[1]
    assert port_holders.described([port]) == ""
    assert port_holders.described([]) == ""


def test_a_listener_is_named_with_process_and_user() -> None:
    with listening() as held, listening() as other:
        port = held.getsockname()[1]
        told = port_holders.described([port])
        assert told.startswith(f"{port} by process {os.getpid()} (")
        assert told.endswith(f") of {user_name(os.geteuid())}")
        assert port_holders.described([port, other.getsockname()[1]]).count("by process") == 2


def test_more_than_a_few_are_counted() -> None:
    held = [listening() for _ in range(port_holders.SHOWN + 2)]
    try:
        told = port_holders.described(made.getsockname()[1] for made in held)
    finally:
        for made in held:
            made.close()
    assert told.count("by process") == port_holders.SHOWN
    assert told.endswith(", 2 more")


def test_a_process_that_cannot_be_seen_is_told_by_its_user() -> None:
    assert port_holders.Holder(29500, 0, "1").words({}) == "a process of root"
