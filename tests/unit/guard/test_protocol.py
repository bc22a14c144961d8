"""Frames survive any slicing of the stream."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import pytest

from ddp_play.guard.protocol import MAGIC, MAX_PAYLOAD, UNREADABLE, Frame, FrameReader, encode, write_all

FRAMES: list[Frame] = [
    ({"t": "open", "run": "calm-otter-1"}, b""),
    ({"t": "log", "rank": 3, "at": 0, "n": 6}, b"abc\n{}"),
    ({"t": "log", "rank": 3, "at": 6, "n": 256}, bytes(range(256))),
    ({"t": "state", "state": {"größe": "λ\n", "x": None}}, b""),
    ({"t": "log", "n": len(MAGIC)}, MAGIC),
    ({"t": "log", "n": MAX_PAYLOAD}, b"\n" * MAX_PAYLOAD),
    ({"t": "bye"}, b""),
]


def stream() -> bytes:
    parts = []
    for header, payload in FRAMES:
        fields = {key: value for key, value in header.items() if key not in ("t", "n")}
        parts.append(encode(header["t"], payload, **fields))
    return b"".join(parts)


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> list[Frame]:
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        found += reader.feed(data[start:end])
    return found


@pytest.mark.parametrize("seed", range(25))
def test_any_slicing(seed: int) -> None:
    chance = random.Random(seed)
    noise = b"" if seed % 2 else b"Last login: today\nDDP-PLAY\n" * chance.randint(0, 5)
    data = noise + MAGIC + stream()
    near = [chance.randint(0, min(900, len(data))) for _ in range(chance.randint(0, 60))]
    far = [chance.randint(0, len(data)) for _ in range(chance.randint(0, 20))]
    assert feed(FrameReader(expect_magic=True), data, sorted(near + far)) == FRAMES


def test_byte_by_byte() -> None:
    data = MAGIC + encode("a", b"\x00\n\xff", x=1) + encode("b")
    reader = FrameReader(expect_magic=True)
    found = [frame for at in range(len(data)) for frame in reader.feed(data[at : at + 1])]
    assert found == [({"t": "a", "x": 1, "n": 3}, b"\x00\n\xff"), ({"t": "b"}, b"")]


def test_nothing_is_nothing() -> None:
    reader = FrameReader()
    assert reader.feed(b"") == []
    assert reader.started


def test_noise_never_becomes_a_frame() -> None:
    reader = FrameReader(expect_magic=True)
    assert reader.feed(b'{"t":"forged"}\n' * 10) == []
    assert not reader.started
    assert reader.feed(MAGIC + encode("real")) == [({"t": "real"}, b"")]
    assert reader.started


def test_endless_noise_takes_no_memory() -> None:
    reader = FrameReader(expect_magic=True)
    for _ in range(50):
        reader.feed(b"x" * 100_000)
    assert len(reader._buffer) <= 65536
    assert reader.feed(MAGIC[:7]) == []
    assert reader.feed(MAGIC[7:] + encode("real"))[0][0]["t"] == "real"


def test_an_endless_header_is_searched_once() -> None:
    """Searched anew with every piece, 64 MiB of it took seconds of the controller's time."""
    starts: list[int] = []

    class Watched(bytearray):
        def find(self, *arguments: Any) -> int:
            starts.append(arguments[1] if len(arguments) > 1 else 0)
            return super().find(*arguments)

    reader = FrameReader(limited=True)
    reader._buffer = Watched()
    assert feed(reader, b"x" * 300, [100, 200]) == []
    assert starts == [0, 100, 200]
    assert reader.feed(b"\n")[0][0]["t"] == UNREADABLE


def test_headers_are_one_line_of_ascii() -> None:
    line = encode("x", text="zwei\nZeilen größe")
    assert line.count(b"\n") == 1
    assert line.isascii()


def test_everything_is_written_through_a_narrow_pipe() -> None:
    read_end, write_end = os.pipe()
    data = random.Random(1).randbytes(1_000_000)

    def write() -> None:
        write_all(write_end, data)
        os.close(write_end)

    writer = threading.Thread(target=write)
    writer.start()
    got = bytearray()
    while piece := os.read(read_end, 65536):
        got += piece
    writer.join()
    os.close(read_end)
    assert bytes(got) == data
