"""The store of source pieces: nothing in it is believed, and it stays within its cap."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import source_store
from ddp_play.guard.source_store import SourceStore

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"print(1)\n"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> SourceStore:
    return SourceStore(tmp_path / "objects")


def test_a_piece_is_kept_for_this_user_only(store: SourceStore) -> None:
    assert not store.has(DIGEST, len(DATA))
    assert store.read(DIGEST, len(DATA)) is None
    assert store.add(DIGEST, DATA)
    assert store.has(DIGEST, len(DATA))
    assert store.read(DIGEST, len(DATA)) == DATA
    assert store.path(DIGEST).stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in (store.root, store.path(DIGEST).parent)} == {0o700}


@pytest.mark.parametrize("content", [b"print(2)\n", b"", DATA + b"more"])
def test_a_damaged_piece_is_removed(store: SourceStore, content: bytes) -> None:
    store.add(DIGEST, DATA)
    store.path(DIGEST).write_bytes(content)
    assert store.has(DIGEST, len(DATA)) == (len(content) == len(DATA))
    assert store.read(DIGEST, len(DATA)) is None
    assert not store.path(DIGEST).exists()


def test_a_link_is_no_piece(store: SourceStore, tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(DATA)
    store.add(DIGEST, DATA)
    store.path(DIGEST).unlink()
    store.path(DIGEST).symlink_to(tmp_path / "own")
    assert not store.has(DIGEST, len(DATA))
    assert store.read(DIGEST, len(DATA)) is None
    assert (tmp_path / "own").read_bytes() == DATA


def test_a_store_that_cannot_be_written_costs_nothing(store: SourceStore) -> None:
    store.root.parent.mkdir(exist_ok=True)
    store.root.write_text("a file")
    assert not store.add(DIGEST, DATA)


@pytest.mark.parametrize(("total", "fits"), [(1, True), (1 << 60, False)])
def test_a_source_that_does_not_fit_is_not_kept(store: SourceStore, total: int, fits: bool) -> None:
    assert store.has_space(total) is fits


def test_the_longest_unused_goes_first_and_what_is_in_use_stays(
    store: SourceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {}
    for age_h in (1.5, 3, 2, 0):
        data = b"%03.1f" % age_h * 100
        digest = names[age_h] = hashlib.sha256(data).hexdigest()
        store.add(digest, data)
        os.utime(store.path(digest), (time.time() - age_h * 3600,) * 2)
    monkeypatch.setattr(source_store, "CAP_BYTES", 700)
    store.evict()
    assert {age for age, digest in names.items() if store.path(digest).exists()} == {1.5, 0}
    monkeypatch.setattr(source_store, "CAP_BYTES", 1)
    store.evict()
    assert {age for age, digest in names.items() if store.path(digest).exists()} == {0}


@pytest.mark.parametrize("cap", [source_store.CAP_BYTES, 1])
def test_an_unfinished_piece_goes_and_foreign_files_stay(
    store: SourceStore, monkeypatch: pytest.MonkeyPatch, cap: int
) -> None:
    """SIGKILL while a piece is written leaves a temporary name; anything else is not ours."""
    store.add(DIGEST, DATA)
    unfinished = store.path(DIGEST).with_name(f".{DIGEST}.0123456789abcdef")
    in_work = unfinished.with_name(f".{DIGEST}.fedcba9876543210")
    foreign = store.root / "thesis.tex"
    for path in (unfinished, in_work, foreign):
        path.write_text("half")
    for path in (unfinished, foreign):
        os.utime(path, (1, 1))
    assert not store.has(DIGEST, 4)
    monkeypatch.setattr(source_store, "CAP_BYTES", cap)
    store.evict()
    assert not unfinished.exists()
    assert all(path.exists() for path in (in_work, foreign, store.path(DIGEST)))


def test_below_the_cap_nothing_goes(store: SourceStore) -> None:
    store.add(DIGEST, DATA)
    os.utime(store.path(DIGEST), (1, 1))
    store.evict()
    assert store.path(DIGEST).exists()


def test_clearing_removes_pieces_and_nothing_else(store: SourceStore) -> None:
    assert (store.size(), store.clear()) == (0, [])
    store.add(DIGEST, DATA)
    foreign = store.root / "thesis.tex"
    foreign.write_text("not ours")
    assert store.size() == len(DATA)
    assert store.clear() == []
    assert (store.size(), store.path(DIGEST).exists(), foreign.exists()) == (0, False, True)


def test_a_piece_that_cannot_be_removed_is_named(store: SourceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> None:
        raise PermissionError(13, "Permission denied")

    store.add(DIGEST, DATA)
    monkeypatch.setattr(os, "unlink", refuse)
    assert store.clear() == [f"{store.path(DIGEST)}: Permission denied"]
