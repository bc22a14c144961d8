"""File of samples on a host: bounded, and whole again after a full disk."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from ddp_play.guard import sample_file
from ddp_play.guard.sample_file import SampleFile, rows_of

HEADER = {"cores": 4}


def made(tmp_path: Path) -> SampleFile:
    found = SampleFile(tmp_path / "samples.jsonl", HEADER)
    found.start()
    return found


def row(up: float) -> dict[str, float]:
    return {"up": up, "s": 2.0, "cpu": 1.0}


def test_header_and_rows(tmp_path: Path) -> None:
    file = made(tmp_path)
    file.append(row(2.0))
    file.append(row(4.0))
    lines = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [HEADER, row(2.0), row(4.0)]


def test_a_long_run_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_file, "LEAST_BYTES", 10_000)
    file = made(tmp_path)
    file._thin_at = 10_000
    for count in range(20_000):  # eleven hours
        file.append(row(2.0 * (count + 1)))
    path = tmp_path / "samples.jsonl"
    rows = rows_of(path.read_bytes())
    assert path.stat().st_size < 150_000
    assert sum(each["s"] for each in rows) == pytest.approx(40_000)
    assert [each["s"] for each in rows[-400:]] == [2.0] * 400


def test_a_full_disk_costs_rows_and_leaves_a_file_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made(tmp_path)
    file.append(row(2.0))
    path = tmp_path / "samples.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(sample_file, "line_of", full)
        file.append(row(4.0))
    path.write_bytes(path.read_bytes() + b'{"up": 6.0, "s"')  # half a row got in
    file.append(row(8.0))
    file.append(row(10.0))
    assert [each["up"] for each in rows_of(path.read_bytes())] == [2.0, 10.0]


def full(_document: object) -> bytes:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_attempt_that_was_cleaned_up_ends_it(tmp_path: Path) -> None:
    file = made(tmp_path)
    (tmp_path / "samples.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        file.append(row(2.0))


@pytest.mark.parametrize("line", [b"", b"x", b"[1]", b'{"up": "1", "s": 2}', b'{"up": 1.0}', b"[" * 100_000])
def test_lines_that_are_no_rows(line: bytes) -> None:
    assert rows_of(line + b'\n{"up": 1.0, "s": 2}\n' + line) == [{"up": 1.0, "s": 2}]


def test_a_row_that_can_be_read_and_not_written_again_is_left_out_of_the_thinned_file(tmp_path: Path) -> None:
    """Its depth is one below that at which Python gives up: which one that is depends on the callers."""
    file = made(tmp_path)
    path = tmp_path / "samples.jsonl"
    for depth in range(850, 1000):
        path.write_text(f'{{}}\n{{"up": 1.0, "s": 1, "x": {"[" * depth}{"]" * depth}}}\n{json.dumps(row(2.0))}\n')
        file.rewrite(2.0)
        assert row(2.0) in rows_of(path.read_bytes())
