"""Which file of the site is copied before a role changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import file_originals, recorded_files

MARKED = "# Managed by ddp-play\n"


@pytest.mark.parametrize(
    ("text", "kept_before", "want", "kept"),
    [
        ("site\n", None, {}, "site\n"),
        ("site\n", "first\n", {}, "first\n"),
        ("site\n", "first\n", {"content": MARKED}, "site\n"),
        ("site\n", "first\n", {"recorded": True}, "site\n"),
        ("site\n", None, {"recorded": True}, "site\n"),
        ("site\n", None, {"recorded": True, "content": "site\n"}, None),
        ("ours\n", None, {"recorded": True}, None),
        ("ours\n", None, {}, "ours\n"),
        (MARKED, None, {}, None),
        (MARKED, None, {"recorded": True}, MARKED),
        (None, None, {}, None),
    ],
)
def test_the_original(
    tmp_path: Path, text: str | None, kept_before: str | None, want: dict[str, Any], kept: str | None
) -> None:
    path, original, record = tmp_path / "a", tmp_path / "a.orig", str(tmp_path / "ddp-play" / "record.json")
    recorded_files.note(record, str(path), "ours\n")
    for file, content in ((path, text), (original, kept_before)):
        if content is not None:
            file.write_text(content)
    entry = {"path": str(path), "content": "new\n", "state": "present", "original": str(original), "recorded": False}
    copied = kept is not None and kept != kept_before
    assert file_originals.keep_original(record, {**entry, **want}, check_mode=True) is copied
    assert original.exists() is (kept_before is not None)
    assert file_originals.keep_original(record, {**entry, **want}, check_mode=False) is copied
    assert (original.read_text() if original.exists() else None) == kept


def test_without_a_path_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("site\n")
    entry = {"path": str(tmp_path / "a"), "content": "", "state": "absent", "original": None, "recorded": False}
    assert not file_originals.keep_original(str(tmp_path / "record.json"), entry, check_mode=False)
