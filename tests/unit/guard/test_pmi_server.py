"""The process manager of MPI ranks: its words, its barrier, and real clients on its socket."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.pmi_server import Board, Server, for_ranks, parse

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cmd=init pmi_version=1 pmi_subversion=1", {"cmd": "init", "pmi_version": "1", "pmi_subversion": "1"}),
        ("cmd=put kvsname=r key=a-1 value=x=y z\n", {"cmd": "put", "kvsname": "r", "key": "a-1", "value": "x=y z"}),
        ("cmd=barrier_in", {"cmd": "barrier_in"}),
        ("", {}),
    ],
)
def test_words(line: str, words: dict[str, str]) -> None:
    assert parse(line) == words


def test_a_rank_learns_who_it_is() -> None:
    board = Board(3, "calm-otter-1")
    assert board.answer(9, parse("cmd=initack pmiid=2"))[9].splitlines() == [
        "cmd=initack rc=0",
        "cmd=set size=3",
        "cmd=set rank=2",
        "cmd=set debug=0",
    ]
    assert board.answer(9, parse("cmd=get_my_kvsname")) == {9: "cmd=my_kvsname kvsname=calm-otter-1 rc=0"}


def test_what_one_rank_puts_another_gets() -> None:
    board = Board(2, "r")
    board.answer(1, parse("cmd=put kvsname=r key=addr value=10.0.0.1 port 7"))
    assert board.answer(2, parse("cmd=get kvsname=r key=addr"))[2].endswith("value=10.0.0.1 port 7")
    assert "rc=-1" in board.answer(2, parse("cmd=get kvsname=r key=other"))[2]


def test_the_barrier_opens_with_the_last_and_closes_again() -> None:
    board = Board(3, "r")
    for _ in range(2):
        assert board.answer(1, {"cmd": "barrier_in"}) == {}
        assert board.answer(2, {"cmd": "barrier_in"}) == {}
        assert set(board.answer(3, {"cmd": "barrier_in"})) == {1, 2, 3}


def test_what_we_do_not_know_is_refused_and_no_silence() -> None:
    assert "rc=-1" in Board(1, "r").answer(1, {"cmd": "spawn"})[1]
    assert "rc=-1" in Board(1, "r").answer(1, {})[1]


def test_abort_is_kept_and_not_answered() -> None:
    board = Board(2, "r")
    assert board.answer(1, parse("cmd=abort exitcode=3")) == {}
    assert board.aborted == 3


@pytest.fixture
def server() -> Iterator[Server]:
    made = for_ranks({"address": "127.0.0.1", "port": 0, "size": 2}, "r")
    assert made is not None
    yield made
    made.close()


def ask(peer: socket.socket, line: bytes) -> bytes:
    """One line there, one back."""
    peer.sendall(line + b"\n")
    found = b""
    while not found.endswith(b"\n"):
        found += peer.recv(1)
    return found


def test_over_sockets_in_pieces_and_past_a_client_that_goes(server: Server) -> None:
    first, second, rude = (socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(3))
    rude.sendall(b"cmd=half")
    rude.close()
    with first, second:
        first.sendall(b"cmd=put kvsname=r ")
        assert ask(first, b"key=k value=v") == b"cmd=put_result rc=0 msg=success\n"
        assert b"value=v" in ask(second, b"cmd=get kvsname=r key=k")
        first.sendall(b"cmd=barrier_in\n")
        assert ask(second, b"cmd=barrier_in") == b"cmd=barrier_out rc=0\n"
        assert first.recv(100) == b"cmd=barrier_out rc=0\n"


def test_a_taken_port_is_an_error_before_any_rank_starts(server: Server) -> None:
    with pytest.raises(OSError, match="in use"):
        for_ranks({"address": "127.0.0.1", "port": server.port, "size": 1}, "r")
    assert for_ranks(None, "r") is None
