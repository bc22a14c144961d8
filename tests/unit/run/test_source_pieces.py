"""Pieces of a source: put together they are the archive, and an edit changes few of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.protocol import SOURCE_ROW
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.source_staging import Staging
from ddp_play.guard.source_store import SourceStore
from ddp_play.run.source_pieces import GROUP_BYTES, pieces_of
from ddp_play.run.source_snapshot import Snapshot, read_snapshot, take_snapshot
from tests.unit.build import job

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    for number in range(400):
        path = root / f"d{number % 7}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * (number * 5))
    (root / "weights").write_bytes(os.urandom(9 << 20))
    (root / "link").symlink_to("weights")
    (root / ("long" * 60)).write_text("a long name")
    return root


def snap(root: Path) -> Snapshot:
    return take_snapshot(job(source=str(root), source_max_mib=100))


def digests(snapshot: Snapshot) -> set[bytes]:
    return {row.digest for row in pieces_of(snapshot).rows}


def assembled(snapshot: Snapshot, place: HostRun, store: SourceStore) -> bytes:
    """The archive as a host makes it."""
    pieces = pieces_of(snapshot)
    staging = Staging(place, pieces.packed(), pieces.num_headers, store)
    for number in staging.missing():
        payload, is_packed = pieces.rows[number].frame(snapshot)
        staging.receive(number, payload, packed=is_packed)
    assert staging.missing() == []
    assert staging.assemble() == []
    return place.source_archive.read_bytes()


def test_a_host_makes_the_same_archive_of_them(tree: Path, tmp_path: Path) -> None:
    place = HostRun(tmp_path)
    snapshot = snap(tree)
    assert assembled(snapshot, place, SourceStore(tmp_path / "objects")) == snapshot.archive[:]
    (tmp_path / "file").touch()
    again = assembled(snapshot, place, SourceStore(tmp_path / "file" / "objects"))
    assert again == snapshot.archive[:], "also without a store"
    assert not place.source_pieces.exists()


def test_one_edit_changes_one_header_and_one_content(tree: Path) -> None:
    first = digests(snap(tree))
    path = tree / "d3" / "file3.py"
    path.write_text("x" * path.stat().st_size)
    assert len(digests(snap(tree)) - first) == 2


def test_times_alone_change_no_content(tree: Path) -> None:
    before = snap(tree)
    for path in tree.rglob("*.py"):
        os.utime(path, (1, 1))
    new = [row for row in pieces_of(snap(tree)).rows if row.digest not in digests(before)]
    assert sum(row.size for row in new) < 400 * 64


def test_a_new_file_changes_its_group_only(tree: Path) -> None:
    first = digests(snap(tree))
    (tree / "d0" / "a-new-one.py").write_text("new")
    new = [row for row in pieces_of(snap(tree)).rows if row.digest not in first]
    assert sum(row.size for row in new) < 4 * GROUP_BYTES


def test_a_snapshot_read_from_its_archive_has_the_same_pieces(tree: Path, tmp_path: Path) -> None:
    snapshot = snap(tree)
    (tmp_path / "archive").write_bytes(snapshot.archive)
    found = read_snapshot(tmp_path / "archive", snapshot.digest)
    assert (found.archive[:], found.manifest, found.members) == (
        snapshot.archive[:],
        snapshot.manifest,
        snapshot.members,
    )


def test_noise_is_not_compressed(tree: Path) -> None:
    snapshot = snap(tree)
    frames = [row.frame(snapshot) for row in pieces_of(snapshot).rows]
    assert {is_packed for payload, is_packed in frames if len(payload) > 1 << 20} == {False}
    assert any(is_packed for _, is_packed in frames)
    assert len(pieces_of(snapshot).packed()) < SOURCE_ROW.size * len(frames) + 100
