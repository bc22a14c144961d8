"""Reader of samples in the bundle, of files that are whole, cut off or damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.samples import SampleFile, file_text, line_of, read_samples

HEADER = {"host": "a", "cores": 16, "memory_total": 1234, "format": 1}


def row(end: float, **fields: Any) -> dict[str, Any]:
    return {"t": end, "s": 2.0, "attempt": 1, **fields}


def test_no_file(tmp_path: Path) -> None:
    assert read_samples(RunPaths(tmp_path).samples("a")) == SampleFile({}, [])


def test_header_and_rows_in_order_of_time(tmp_path: Path) -> None:
    """Rows of an earlier attempt may arrive late, from a host that was lost."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_text(HEADER, [row(4.0, cpu=1.0), row(6.0), row(2.0)]))
    assert read_samples(path) == SampleFile(HEADER, [row(2.0), row(4.0, cpu=1.0), row(6.0)])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"\xff\xfe\n",
        b"[1, 2]",
        b"3",
        b"[" * 100_000,
        b'{"t": 1.0, "s": 2.0}',
        b'{"t": "1.0", "s": 2.0, "attempt": 1}',
        b'{"t": NaN, "s": 2.0, "attempt": 1}',
        b'{"t": 1.0, "s": 2.0, "attempt": true}',
        b'{"t": 4.0, "s": 2.0, "attempt": 1, "cp',
    ],
)
def test_lines_that_are_no_rows(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_text(HEADER, [row(2.0)]) + line + b"\n" + line_of(row(4.0)) + line)
    assert read_samples(path) == SampleFile(HEADER, [row(2.0), row(4.0)])


def test_a_later_header_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_text(HEADER, [row(2.0)]) + line_of({**HEADER, "cores": 8}))
    assert read_samples(path).header["cores"] == 8


def test_each_host_has_a_file(tmp_path: Path) -> None:
    assert RunPaths(tmp_path).samples("gpu-3") == tmp_path / "samples" / "gpu-3.jsonl"
