"""Messages of the program that holds and changes packets; it runs in tests/lab/test_pair_matrix_defects.py."""

from __future__ import annotations

import struct

from ddp_play.checks.self_test.packet_queue import (
    PACKET,
    PACKET_HEADER,
    PAYLOAD,
    QUEUE,
    VERDICT,
    attribute,
    attributes,
    changed,
    let_go,
    message,
    packets,
)


def packet(number: int, payload: bytes) -> bytes:
    return message(
        PACKET, attribute(PACKET_HEADER, struct.pack(">IHB", number, 0x0800, 3)), attribute(PAYLOAD, payload)
    )


def test_attributes_are_padded_and_read_again() -> None:
    rows = [(1, b"abc"), (10, b""), (2, b"12345678")]
    data = b"".join(attribute(kind, value) for kind, value in rows)
    assert len(data) % 4 == 0
    assert list(attributes(data)) == rows
    assert list(attributes(b"")) == []


def test_packets_of_one_answer_of_the_kernel() -> None:
    data = packet(7, b"hello") + message(VERDICT) + packet(8, b"")
    assert list(packets(data)) == [(7, b"hello"), (8, b"")]
    assert list(packets(b"")) == []


def test_a_verdict_names_the_packet_and_has_the_other_payload() -> None:
    plain, other = let_go(7), let_go(7, b"other")
    size, kind = struct.unpack_from("IH", plain)
    assert (size, kind) == (len(plain), VERDICT)
    assert struct.unpack_from(">H", plain, 18) == (QUEUE,)
    assert dict(attributes(plain[20:])) == {2: struct.pack(">II", 1, 7)}
    assert dict(attributes(other[20:]))[PAYLOAD] == b"other"


def test_a_changed_packet_has_the_same_size() -> None:
    assert changed(b"abc")[:2] == b"ab"
    assert len(changed(b"abc")) == 3
    assert changed(changed(b"abc")) == b"abc"
