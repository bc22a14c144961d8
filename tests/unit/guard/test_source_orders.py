"""Orders that bring the source to a host: whole, or in pieces."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.source_orders import SourceOrders
from ddp_play.guard.source_staging import Staging
from tests.unit.guard.test_source_staging import ARCHIVE, PIECES, packed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sent() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def orders(tmp_path: Path, sent: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch) -> SourceOrders:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    return SourceOrders(lambda kind, **fields: sent.append((kind, fields)), lambda: HostRun(tmp_path))


def test_a_whole_archive(orders: SourceOrders, tmp_path: Path) -> None:
    for part in (b"ab", b"cd", b""):
        orders.on_source({}, part)
    assert HostRun(tmp_path).source_archive.read_bytes() == b"abcd"


def test_pieces(orders: SourceOrders, tmp_path: Path, sent: list[tuple[str, dict[str, Any]]]) -> None:
    orders.on_stage({"headers": 1}, packed(*PIECES))
    for number, piece in enumerate(PIECES):
        orders.on_piece({"at": number, "packed": 0}, piece)
    orders.on_assemble({}, b"")
    assert sent == [("staged", {"missing": [0, 1, 2]}), ("staged", {"missing": []})]
    assert HostRun(tmp_path).source_archive.read_bytes() == ARCHIVE
    HostRun(tmp_path).source_archive.unlink()
    orders.on_stage({"headers": 1}, packed(*PIECES))
    assert sent[-1] == ("staged", {"missing": []})
    assert HostRun(tmp_path).source_archive.read_bytes() == ARCHIVE, "it needs no other order"


def test_a_full_disk_is_told_once_at_the_end(orders: SourceOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    orders.on_stage({"headers": 1}, packed(*PIECES))
    monkeypatch.setattr(Staging, "receive", full)
    orders.on_piece({"at": 0}, PIECES[0])
    orders.on_piece({"at": 1}, PIECES[1])
    with pytest.raises(OSError, match="No space left"):
        orders.on_assemble({}, b"")


def test_a_piece_without_a_list(orders: SourceOrders) -> None:
    with pytest.raises(Refused, match="no source was announced"):
        orders.on_piece({"at": 0}, b"x")
