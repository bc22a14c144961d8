"""Files of a verb in an allocation: each has a place of its own below the directory of the verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.bundle.verb_paths import VerbPaths
from ddp_play.engines.interface import OUTPUT

if TYPE_CHECKING:
    from pathlib import Path


def test_each_file_has_a_place_of_its_own(tmp_path: Path) -> None:
    paths = VerbPaths(tmp_path)
    files = {paths.order, paths.hosts, paths.out, paths.err, paths.end, paths.output, paths.lock}
    assert len(files) == 7
    assert all(path.is_relative_to(tmp_path) for path in files)
    assert paths.output == tmp_path / "engine" / OUTPUT, "the engine writes it there"
