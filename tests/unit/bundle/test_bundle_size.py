"""Sizes of bundles: recorded, measured, and given up where a bound is reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddp_play.bundle.bundle_size import Budget, measure, size_of, to_record


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 1000)
    root = tmp_path / "bundle"
    (root / "logs").mkdir(parents=True)
    (root / "run.json").write_bytes(b"x" * 10)
    (root / "logs" / "rank-0.log").write_bytes(b"x" * 5)
    (root / "link").symlink_to(outside)
    return root


def test_links_count_as_links_and_are_not_followed(bundle: Path) -> None:
    assert measure(bundle) == 15 + (bundle / "link").lstat().st_size


def test_the_budget_is_shared(bundle: Path) -> None:
    """The bundle, its folder logs as entry and as folder, run.json, link and the log are six."""
    budget = Budget(11)
    assert measure(bundle, budget) is not None
    assert measure(bundle, budget) is None


def test_a_recorded_size_opens_nothing(bundle: Path) -> None:
    assert size_of(bundle, {"bundle_bytes": 3}, Budget(0)) == 3
    assert size_of(bundle, {}, Budget(0)) is None
    assert size_of(bundle, {"bundle_bytes": None}) == measure(bundle)


def test_the_report_counts_whenever_it_is_written(bundle: Path) -> None:
    """Every run writes it after its size was recorded, and `ddp-play report` writes it anew."""
    document = {"bundle_bytes": to_record(bundle)}
    assert size_of(bundle, document) == measure(bundle) == to_record(bundle)
    for size in (500, 700):
        (bundle / "report.html").write_bytes(b"x" * size)
        assert size_of(bundle, document, Budget(0)) == measure(bundle) == document["bundle_bytes"] + size
        assert to_record(bundle) == document["bundle_bytes"]


def test_without_a_budget_no_folder_is_opened(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand bundles only the first are looked at."""
    monkeypatch.setattr(os, "scandir", lambda _path: pytest.fail("a folder was opened"))
    assert measure(bundle, Budget(0)) is None


def test_no_such_bundle(tmp_path: Path) -> None:
    assert measure(tmp_path / "gone") == 0
