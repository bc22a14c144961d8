"""Lines of files that may be large."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from ddp_play.report.line_sampling import sampled_lines


def write(path: Path, count: int, *, pad: int = 40) -> Path:
    path.write_text("".join(json.dumps({"step": step, "pad": "x" * pad}) + "\n" for step in range(count)))
    return path


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    found = sampled_lines(write(tmp_path / "m", 100), 20_000)
    assert found.is_whole
    assert [row["step"] for row in found.documents()] == list(range(100))


@pytest.mark.parametrize("pad", [1, 40, 3000])
def test_of_a_large_one_whole_lines_from_everywhere(tmp_path: Path, pad: int) -> None:
    path = write(tmp_path / "m", 3000, pad=pad)
    found = sampled_lines(path, 60_000)
    steps = [row["step"] for row in found.documents()]
    assert not found.is_whole
    assert len(steps) == len(found.lines), "each line is whole"
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert steps[-1] == 2999
    assert max(after - before for before, after in itertools.pairwise(steps)) < 700


def test_lines_that_are_no_objects_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b'{"a": 1}\n[1]\nnot json\n\xff\xfe\n' + b"[" * 5000 + b'\n{"b": 2')
    assert sampled_lines(path, 10**6).documents() == [{"a": 1}]


def test_a_line_of_many_megabytes_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"x" * 10_000_000)
    found = sampled_lines(path, 60_000)
    assert sum(map(len, found.lines)) <= 60_000
    assert found.documents() == []


def test_an_absent_file_has_no_lines(tmp_path: Path) -> None:
    assert sampled_lines(tmp_path / "absent", 100).lines == ()
