"""Whose file it is that ddp.play.files changes, and what happens to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils.file_changes import OWN_MARK, FileBefore


def before(folder: Path, name: str, text: str | None, **want: Any) -> Any:
    path = folder / name
    if text is not None:
        path.write_text(text)
    entry = {"path": str(path), "state": "present", "original": None, **want}
    return FileBefore(entry, text or "", str(folder / "ddp" / "record.json"))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.conf", None, "new"),
        ("a.conf", "site\n", "theirs"),
        ("a.conf", f"# {OWN_MARK}\n", "ours"),
        ("60-ddp-play.conf", "x\n", "ours"),
    ],
)
def test_the_owner_of_a_file(tmp_path: Path, name: str, text: str | None, expected: str) -> None:
    assert before(tmp_path, name, text).owner == expected


def test_a_directory_that_no_role_made_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert before(tmp_path, "data", None, state="directory").owner == "theirs"


@pytest.mark.parametrize(
    ("state", "changed", "kept", "kinds"),
    [
        ("present", False, False, []),
        ("present", True, False, ["change"]),
        ("present", True, True, ["change", "add"]),
        ("absent", True, False, ["remove"]),
        ("restored", True, False, ["remove"]),
        ("present", False, True, ["add"]),
    ],
)
def test_kinds_of_rows(tmp_path: Path, state: str, changed: bool, kept: bool, kinds: list[str]) -> None:
    found = before(tmp_path, "a", "site\n", state=state, original=str(tmp_path / "a.orig")).rows(changed, kept)
    assert [row["kind"] for row in found] == kinds
