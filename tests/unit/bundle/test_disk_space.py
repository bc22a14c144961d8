"""Disk space for a bundle: the reserve is given up when the disk is full, and set aside again later."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.disk_space import RESERVE_BYTES, DiskSpace, is_full, refuse_full
from ddp_play.errors import DiskFull

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EACCES, False), (errno.EIO, False)]
)
def test_only_missing_space_and_quotas_are_a_full_disk(number: int, full: bool) -> None:
    assert is_full(OSError(number, "x")) is full


def test_the_reserve_is_given_up_on_a_full_disk_and_set_aside_again(tmp_path: Path) -> None:
    space, reserve = DiskSpace(tmp_path), tmp_path / ".reserve"
    space.reserve()
    assert reserve.stat().st_size == RESERVE_BYTES
    space.give_up()
    assert (space.full, reserve.exists()) == (True, False)
    assert space.recover(), "this disk has more than three reserves free"
    assert (space.full, reserve.stat().st_size) == (False, RESERVE_BYTES)


def test_a_run_is_refused_where_nothing_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_full(tmp_path)
    monkeypatch.setattr("ddp_play.bundle.disk_space.LEAST_BYTES", 1 << 60)
    with pytest.raises(DiskFull, match=r"no space left for .* MB are free, .* nothing was started") as found:
        refuse_full(tmp_path)
    assert found.value.hint.startswith(f"free some space: df -h {tmp_path}")


def test_a_disk_that_was_not_full_is_not_back(tmp_path: Path) -> None:
    space = DiskSpace(tmp_path)
    assert not space.recover()
    assert list(tmp_path.iterdir()) == []


def test_a_finished_bundle_has_no_reserve(tmp_path: Path) -> None:
    space = DiskSpace(tmp_path)
    space.reserve()
    space.release()
    space.release()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_takes_no_reserve_is_no_error(tmp_path: Path) -> None:
    space = DiskSpace(tmp_path / "missing")
    space.reserve()
    space.give_up()
    assert space.full
