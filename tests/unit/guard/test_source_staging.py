"""Staging on a host: pieces that are missing, wrong, lost or damaged."""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.protocol import MAX_SOURCE_PIECE, SOURCE_ROW
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.source_staging import Staging
from ddp_play.guard.source_store import SourceStore
from tests.unit.build import source_archive

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVE = source_archive(("a", "conten", ""), ("b", "tsX", ""), ("c", "", "target"))
HEADERS = ARCHIVE.replace(b"conten", b"").replace(b"tsX", b"")
PIECES = (HEADERS, b"conte", b"ntsXYZ")


def packed(*pieces: bytes) -> bytes:
    return zlib.compress(b"".join(SOURCE_ROW.pack(hashlib.sha256(one).digest(), len(one)) for one in pieces))


@pytest.fixture
def store(tmp_path: Path) -> SourceStore:
    return SourceStore(tmp_path / "objects")


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path)


def staging(place: HostRun, store: SourceStore, *pieces: bytes) -> Staging:
    return Staging(place, packed(*(pieces or PIECES)), 1, store)


def filled(made: Staging) -> Staging:
    for number, one in enumerate(PIECES):
        made.receive(number, zlib.compress(one), packed=True)
    return made


def test_headers_and_contents_are_put_together(place: HostRun, store: SourceStore) -> None:
    made = staging(place, store)
    assert made.missing() == [0, 1, 2]
    made.receive(1, PIECES[1], packed=False)
    assert made.missing() == [0, 2]
    assert filled(made).assemble() == []
    assert place.source_archive.read_bytes() == ARCHIVE
    assert staging(place, store).missing() == [], "the next run needs nothing"


def test_a_piece_that_another_run_stores_meanwhile_is_taken(
    place: HostRun, store: SourceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was that nothing is missing, and there was no archive."""
    made = filled(staging(place, store))
    digest = hashlib.sha256(PIECES[2]).hexdigest()
    store.path(digest).unlink()
    check = made._check_all

    def checked() -> None:
        check()
        store.add(digest, PIECES[2])

    monkeypatch.setattr(made, "_check_all", checked)
    assert made.assemble() == []
    assert place.source_archive.read_bytes() == ARCHIVE


def test_a_piece_that_can_be_neither_read_nor_removed_is_refused(
    place: HostRun, store: SourceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = filled(staging(place, store))
    monkeypatch.setattr(store, "read", lambda *_: None)
    with pytest.raises(Refused, match=r"a kept piece of the source cannot be read in .*objects") as caught:
        made.assemble()
    assert "gc -i INVENTORY --sources" in caught.value.hint
    assert not place.source_archive.exists()


def test_the_same_content_is_missing_once(place: HostRun, store: SourceStore) -> None:
    assert staging(place, store, HEADERS, b"same", b"same").missing() == [0, 1]


@pytest.mark.parametrize("damage", ["content", "gone"])
def test_a_damaged_piece_is_missing_again(place: HostRun, store: SourceStore, damage: str) -> None:
    made = filled(staging(place, store))
    path = store.path(hashlib.sha256(PIECES[2]).hexdigest())
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"ntsXYz")
    assert made.assemble() == [2]
    assert not place.source_archive.exists()
    made.receive(2, PIECES[2], packed=False)
    assert made.assemble() == []
    assert place.source_archive.read_bytes() == ARCHIVE


def test_without_a_store_the_run_has_its_pieces_for_itself(place: HostRun, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = filled(staging(place, SourceStore(tmp_path / "file" / "objects")))
    assert place.source_pieces.exists()
    assert made.assemble() == []
    assert place.source_archive.read_bytes() == ARCHIVE
    assert not place.source_pieces.exists()


@pytest.mark.parametrize(
    ("number", "payload", "is_packed", "words"),
    [
        (1, b"other", False, "another content"),
        (1, zlib.compress(b"conte" * 1000), True, "larger than announced"),
        (1, b"no stream", True, "damaged"),
        (3, b"conte", False, "not in its list"),
        (-1, b"conte", False, "not in its list"),
    ],
)
def test_a_piece_that_is_not_the_listed_one(
    place: HostRun, store: SourceStore, number: int, payload: bytes, is_packed: bool, words: str
) -> None:
    made = staging(place, store)
    with pytest.raises(Refused, match=words):
        made.receive(number, payload, packed=is_packed)
    assert made.missing() == [0, 1, 2]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b"no stream", "damaged"),
        (zlib.compress(b"short"), "cut off"),
        (zlib.compress(SOURCE_ROW.pack(b"", MAX_SOURCE_PIECE + 1)), "too large"),
    ],
)
def test_a_list_that_is_none(place: HostRun, store: SourceStore, rows: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words):
        Staging(place, rows, 0, store)


def test_contents_that_are_not_complete(place: HostRun, store: SourceStore) -> None:
    made = staging(place, store, HEADERS, b"conte")
    made.receive(0, HEADERS, packed=False)
    made.receive(1, b"conte", packed=False)
    with pytest.raises(Refused, match=r"missing|not complete"):
        made.assemble()
    assert not place.source_archive.exists()
