"""Backups of account files: they return if the account file is as it was, and stay if somebody changed it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import account_backups

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir()
    for name, text in (("group", "a\nb\n"), ("group-", "a\n"), ("gshadow", "x\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o640)
    return folder


def change(etc: Path, name: str, text: str) -> None:
    """What shadow-utils do: the old text becomes the backup."""
    (etc / f"{name}-").write_text((etc / name).read_text())
    (etc / name).write_text(text)


def test_a_backup_returns_after_the_change_was_taken_back(etc: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    account_backups.keep(kept, etc)
    assert kept.stat().st_mode & 0o777 == 0o700
    for name in ("group", "gshadow"):
        before = (etc / name).read_text()
        change(etc, name, "changed\n")
        account_backups.keep(kept, etc)
        change(etc, name, before)
    assert account_backups.give_back(kept, etc) == ["group-", "gshadow-"]
    assert {path.name: path.read_text() for path in etc.iterdir()} == {
        "group": "a\nb\n", "group-": "a\n", "gshadow": "x\n",
    }  # fmt: skip
    assert (etc / "group-").stat().st_mode & 0o777 == 0o640
    assert not kept.exists()


def test_the_text_of_a_link_is_kept(etc: Path, tmp_path: Path) -> None:
    (etc / "group").rename(etc / "elsewhere")
    (etc / "group").symlink_to("elsewhere")
    account_backups.keep(tmp_path / "kept", etc)
    (etc / "group-").write_text("changed\n")
    assert account_backups.give_back(tmp_path / "kept", etc) == ["group-"]


def test_a_backup_of_somebody_elses_change_stays(etc: Path, tmp_path: Path) -> None:
    account_backups.keep(tmp_path / "kept", etc)
    change(etc, "group", "a\nb\ntheirs\n")
    assert account_backups.give_back(tmp_path / "kept", etc) == []
    assert (etc / "group-").read_text() == "a\nb\n"


def test_nothing_kept_gives_nothing_back(etc: Path, tmp_path: Path) -> None:
    assert account_backups.give_back(tmp_path / "kept", etc) == []
