"""The record of texts without a mark: what a role wrote is told from what the site wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import host_record, recorded_files


@pytest.fixture
def record(tmp_path: Path) -> str:
    return str(tmp_path / "ddp-play" / "record.json")


def entry(path: Path, **want: Any) -> dict[str, Any]:
    return {"path": str(path), "content": "wanted\n", "state": "present", "recorded": True, **want}


def test_every_text_that_was_written_is_ours_until_it_is_forgotten(tmp_path: Path, record: str) -> None:
    path = tmp_path / "ca.crt"
    for text in ("first\n", "second\n", "second\n"):
        recorded_files.note(record, str(path), text)
    recorded_files.note(record, str(tmp_path / "other"), "third\n")
    assert len(recorded_files.written(record, str(path))) == 2
    for text, ours in (("first\n", True), ("second\n", True), ("third\n", False), ("wanted\n", False)):
        path.write_text(text)
        assert recorded_files.is_ours(record, entry(path)) is ours
        assert not recorded_files.is_ours(record, entry(path, recorded=False))
    path.write_text("first\n")
    recorded_files.forget(record, str(path))
    assert not recorded_files.is_ours(record, entry(path))
    assert list(json.loads(Path(record).read_text())["files"]) == [str(tmp_path / "other")]
    recorded_files.forget(record, str(tmp_path / "other"))
    assert not Path(record).parent.exists()


@pytest.mark.parametrize(("text", "ours"), [("wanted\n", True), ("edited\n", False)])
def test_without_a_record_of_files_the_directory_is_the_proof(
    tmp_path: Path, record: str, text: str, ours: bool
) -> None:
    made, theirs = tmp_path / "made", tmp_path / "theirs"
    host_record.make_directories(record, str(made))
    theirs.mkdir()
    for folder in (made, theirs):
        (folder / "ca.crt").write_text(text)
    assert recorded_files.is_ours(record, entry(made / "ca.crt")) is ours
    assert not recorded_files.is_ours(record, entry(theirs / "ca.crt"))


@pytest.mark.parametrize(
    ("text", "want", "stays"),
    [
        ("site\n", {"state": "restored"}, True),
        ("wanted\n", {"state": "restored"}, True),
        ("ours\n", {"state": "restored"}, False),
        (None, {"state": "restored"}, False),
        ("wanted\n", {}, True),
        ("site\n", {}, False),
        ("ours\n", {}, False),
        (None, {}, False),
        ("site\n", {"state": "absent"}, False),
        ("site\n", {"state": "restored", "recorded": False}, False),
        ("wanted\n", {"recorded": False}, False),
    ],
)
def test_what_stays(tmp_path: Path, record: str, text: str | None, want: dict[str, Any], stays: bool) -> None:
    path = tmp_path / "ca.crt"
    recorded_files.note(record, str(path), "ours\n")
    if text is not None:
        path.write_text(text)
    assert recorded_files.stays(record, entry(path, **want)) is stays


@pytest.mark.parametrize(
    ("text", "state", "stays"), [("wanted\n", "present", True), ("x\n", "present", False), ("x\n", "restored", True)]
)
def test_a_link_is_the_sites(tmp_path: Path, record: str, text: str, state: str, stays: bool) -> None:
    path, target = tmp_path / "ca.crt", tmp_path / "target"
    target.write_text(text)
    path.symlink_to(target)
    recorded_files.note(record, str(path), text)
    assert recorded_files.read_text(str(path)) is None
    assert recorded_files.stays(record, entry(path, state=state)) is stays
