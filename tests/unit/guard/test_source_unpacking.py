"""The source of a run: unpacked once, announced, waited for."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import source_unpacking
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.test_attempt_directories import spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path / "state" / "runs" / "r1" / "1.h1")


def archive(place: HostRun, *members: tuple[str, str, str]) -> None:
    """src.tar with files and symbolic links: (name, content, link target)."""
    place.root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place.root / "src.tar", "w") as tar:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            info.size, info.linkname = len(content), link
            info.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
            tar.addfile(info, io.BytesIO(content.encode()))


def source(place: HostRun, role: str = "unpack", wait_s: float = 0.2) -> dict[str, Any]:
    return spec(source={"role": role, "path": str(place.src), "digest": "d1", "wait_s": wait_s, "collect": True})


def test_the_source_is_unpacked_and_announced(place: HostRun) -> None:
    archive(place, ("pkg/train.py", "print(1)", ""), ("data", "", "/data/imagenet"))
    source_unpacking.unpack_source(place, source(place))
    assert (place.src / "pkg" / "train.py").read_text() == "print(1)"
    assert str((place.src / "data").readlink()) == "/data/imagenet"
    assert (place.root / ".complete-d1").exists()
    assert not (place.root / "src.tar").exists()
    source_unpacking.unpack_source(place, source(place, role="wait"))


def test_a_source_that_does_not_appear(place: HostRun) -> None:
    with pytest.raises(Refused, match=r"the staged source did not appear at .* within 0 s") as caught:
        source_unpacking.unpack_source(place, source(place, role="wait"))
    assert "same file system" in caught.value.hint


def test_without_a_source_nothing_happens(place: HostRun) -> None:
    source_unpacking.unpack_source(place, spec())
    assert not place.root.exists()
