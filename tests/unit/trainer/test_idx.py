"""IDX files."""

import struct
from pathlib import Path

from trainer.idx import read_idx


def idx(shape: tuple[int, ...], content: bytes) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + content


def test_idx_reads_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(idx((2, 3), b"abcdef"))
    assert read_idx(tmp_path / "x", num_dims=2).tolist() == [[97, 98, 99], [100, 101, 102]]
