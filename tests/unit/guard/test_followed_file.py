"""What is read of a file that grows, is truncated or cannot be read, and where the next channel goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import followed_file
from ddp_play.guard.followed_file import TRUNCATED, FileStarts, Followed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "rank-0.log"
    path.parent.mkdir()
    path.write_bytes(b"")
    return path


def followed(log: Path, offset: int = 0) -> Followed:
    """As a new channel follows it."""
    return Followed(log, offset, FileStarts(log.parent.parent / "file-starts.json"))


def read(file: Followed) -> bytes:
    """All that is new."""
    found = b""
    while chunk := file.next_chunk():
        file.offset += len(chunk)
        found += chunk
    return found


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as handle:
        handle.write(data)


def test_a_file_that_only_grows_is_whole(log: Path) -> None:
    file = followed(log)
    append(log, b"one ")
    assert (read(file), read(file)) == (b"one ", b"")
    append(log, b"two")
    assert (file.is_behind, read(file), file.is_behind, file.offset) == (True, b"two", False, 7)
    assert (file.loss(), followed(log, 7).loss()) == ("", "")


@pytest.mark.parametrize("after", [b"b\n", b"b2\n12", b"after it, more than there was before\n"])
def test_a_truncated_file_is_read_from_its_start(log: Path, after: bytes) -> None:
    """Also if it has grown again to the same size, or beyond it, since the last look."""
    file = followed(log)
    append(log, b"before\n")
    assert read(file) == b"before\n"
    log.write_bytes(after)
    assert file.is_behind or len(after) == 7
    assert read(file) == after
    append(log, b"end\n")
    assert read(file) == b"end\n"
    assert (file.offset, file.loss()) == (7 + len(after) + 4, TRUNCATED)


def read_and_truncated(log: Path) -> None:
    """A channel has read a line, and the one after it in the truncated log."""
    file = followed(log)
    append(log, b"before\n")
    read(file)
    log.write_bytes(b"after\n")
    read(file)


def test_the_next_channel_goes_on_where_the_last_one_ended(log: Path) -> None:
    read_and_truncated(log)
    append(log, b"then\n")
    new = followed(log, 13)
    assert (read(new), new.offset, new.loss()) == (b"then\n", 18, TRUNCATED)


def test_pieces_that_did_not_arrive_are_read_again(log: Path) -> None:
    read_and_truncated(log)
    assert read(followed(log, 3)) == b"after\n", "the rest of the first line is lost"
    append(log, b"then\n")
    assert read(followed(log, 9)) == b"then\n"


@pytest.mark.parametrize("after", [b"x\n", b"after it, more than there was before\n"])
def test_a_truncation_between_two_channels_is_noticed(log: Path, after: bytes) -> None:
    append(log, b"before\n")
    read(followed(log))
    log.write_bytes(after)
    new = followed(log, 7)
    assert (read(new), new.loss()) == (after, TRUNCATED)


def test_starts_that_cannot_be_read_or_stored_lose_nothing(log: Path) -> None:
    (log.parent.parent / "file-starts.json").write_text('{"log logs/rank-0.log": {"base": "x", "head": 3}}')
    file = followed(log)
    append(log, b"before\n")
    assert read(file) == b"before\n"
    file = Followed(log, 7, FileStarts(log.parent / "none" / "file"))
    log.write_bytes(b"b\n")
    assert (read(file), file.loss()) == (b"b\n", TRUNCATED)


def test_a_file_that_cannot_be_read_is_not_whole(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = followed(log)
    append(log, b"one")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(followed_file, "open_file", broken)
        assert (file.next_chunk(), file.loss()) == (b"", "it cannot be read: Input/output error")
    assert (read(file), file.loss()) == (b"one", "")
    log.unlink()
    assert (file.next_chunk(), file.loss()) == (b"", "it cannot be read: No such file or directory")
    log.parent.rmdir()
    assert (file.next_chunk(), file.loss()) == (b"", ""), "an earlier cleanup removed the logs of all ranks"
