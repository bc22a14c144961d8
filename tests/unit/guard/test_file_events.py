"""News of files from the kernel."""

from __future__ import annotations

import select
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.file_events import FileEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def events(tmp_path: Path) -> Iterator[FileEvents]:
    (tmp_path / "log").write_text("a")
    made = FileEvents([str(tmp_path)])
    yield made
    made.close()


def news(events: FileEvents) -> bool:
    return bool(select.select(events.descriptors(), [], [], 0)[0])


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("b")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: append(folder / "log"),
        lambda folder: (folder / "new").touch(),
        lambda folder: (folder.parent / "outside").replace(folder / "log"),
    ],
    ids=["written to", "created", "put there"],
)
def test_a_change_is_news_once(tmp_path: Path, events: FileEvents, change: Callable[[Path], None]) -> None:
    (tmp_path.parent / "outside").write_text("c")
    assert not news(events)
    change(tmp_path)
    assert news(events)
    events.clear()
    assert not news(events)


def test_reading_is_no_news(tmp_path: Path, events: FileEvents) -> None:
    assert (tmp_path / "log").read_text() == "a"
    assert not news(events)


@pytest.mark.usefixtures("no_descriptor_left")
@pytest.mark.parametrize("name", ["missing", "file", "link"])
def test_what_is_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match=name):
        FileEvents([str(tmp_path), str(tmp_path / name)])
